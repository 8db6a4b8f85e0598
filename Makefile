# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo docs serve test test-long fuzz check setup format lint clean

demo: $(READY)  ## make a few videos, label them through the Prefect flow, train a small world model on them
	$(BIN)/spectrabox demo demo

serve: $(READY)  ## a Prefect server on localhost, and all deployments
	$(BIN)/spectrabox serve

docs: $(READY)  ## the documentation as a site that needs no network: build/docs/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

test: $(READY) lint  ## everything that fits into 20 minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m 'not long and not alone' -n auto --dist loadfile
	$(BIN)/python -m pytest -m alone

test-long: $(READY)  ## load, many kills, and other runs that take longer
	$(BIN)/python -m pytest -m long

fuzz: $(READY)  ## thousands of broken files, other ones each time; FUZZ_CASES=2000 FUZZ_FIRST=0 make fuzz
	FUZZ_CASES=$${FUZZ_CASES:-400} FUZZ_FIRST=$${FUZZ_FIRST:-$$(date +%s)} OMP_NUM_THREADS=1 \
		$(BIN)/python -m pytest tests/fuzz -m fuzz -n auto

check: $(READY) lint  ## before every commit: all but the slow tests, five minutes on two cores
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m 'not slow and not long and not alone' -n auto --dist loadfile -x

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv demo build *.egg-info
