"""Broken labels of other tools are refused with one sentence, or read."""

from __future__ import annotations

from pathlib import Path

import pytest

from labeling.export import FORMATS, export
from labeling.importing import import_labels
from labeling.scoring import score
from labeling.store import Store, StoreError
from labeling.validate import validate
from tests.fuzz.cases import Case
from tests.labeling.conftest import build_store


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return build_store(tmp_path_factory.mktemp("sound"), "a.mp4", "b.mp4", masks=False)


@pytest.mark.fuzz(8)
@pytest.mark.parametrize("format", ["mot", "coco", "youtube-vis"])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_broken_labels_of_other_tools(sound: Store, case: Case, format: str) -> None:
    given = export(sound, format, case.given / FORMATS[format].out).path
    case.mutate(given)
    videos = Path(str(sound.path)).parent / "videos"
    with case.judged(StoreError):
        made = import_labels(given, videos, case.out / "labels.zarr")
        for problem in made.problems.values():
            case.check_sentence(problem)
        assert validate(made.path) == []
    with case.judged(StoreError):
        for problem in score(sound, given).problems.values():
            case.check_sentence(problem)
