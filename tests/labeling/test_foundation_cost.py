"""The benchmark of the foundation profile runs and prints both of its ratios."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "foundation_cost.py"


@pytest.mark.slow
def test_the_cost_of_the_foundation_profile_is_printed_as_ratios() -> None:
    done = subprocess.run(
        [sys.executable, BENCHMARK, "--quick", "--frames", "4", "--objects", "1"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    adapter = re.search(r"over transformers' streaming loop: .* logits differ by (\S+) at most", done.stdout)
    pipeline = re.search(r"over the sum of its networks: (\S+), at most 1.15", done.stdout)
    assert adapter, done.stdout
    assert pipeline, done.stdout
    assert float(adapter[1]) < 1e-2  # both sides do the same work
    assert float(pipeline[1]) > 1  # the networks' time is a part of the whole
    rows = re.findall(r"^(VideoCutLER|DINOv2|SAM, \w+) +(\d+) ", done.stdout, re.M)
    calls = {name: int(count) for name, count in rows}
    assert calls["SAM, encoding"] == 4
    assert min(calls.values()) > 0
    assert len(calls) == 4
    table = done.stdout.partition("held at a time, MiB")[2].partition("all, in float32")
    rows = [[int(value) for value in row.split()[-2:]] for row in table[0].splitlines()[1:]]
    assert len(rows) >= 3
    assert [int(value) for value in table[2].split()[:2]] == [sum(column) for column in zip(*rows, strict=True)]
