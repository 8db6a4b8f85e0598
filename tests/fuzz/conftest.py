"""How many cases there are: `@pytest.mark.fuzz(12)` says how many in CI, FUZZ_CASES how many of each by hand."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.fuzz.cases import Case, new_case


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("fuzz")
    if marker is not None:
        first, count = int(os.environ.get("FUZZ_FIRST", "0")), int(os.environ.get("FUZZ_CASES", marker.args[0]))
        metafunc.parametrize("seed", range(first, first + count))


@pytest.fixture
def case(seed: int, request: pytest.FixtureRequest) -> Iterator[Case]:
    """The case of a seed."""
    with new_case(request.node.nodeid, seed) as made:
        yield made
