"""Clips of somebody's own: labeled by us to train on, judged by their true boxes in clips that were held out."""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.reproduction.tiny_scale import TINY
from training.dataset import Dataset, DatasetError, open_dataset
from training.manifest import PrepareConfig
from training.reproduction.beyond.clips import Clips, Filmed, Fold, fingerprint, true_boxes
from training.reproduction.beyond.real_clips import FOLDS, table
from training.reproduction.cells import Figure, Folder, Times
from training.reproduction.run import reproduce
from training.reproduction.scales import CPU
from training.reproduction.table import Table
from training.simulate import simulate_videos
from training.sources import reading

CLIPS = 5


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five clips with true boxes beside them; the last one has none."""
    folder = tmp_path_factory.mktemp("clips")
    *_, last = simulate_videos("nball", folder, episodes=CLIPS, frames=24, seed=2, balls=1)
    last.with_suffix(".json").unlink()
    return folder


def first_fold(clips: Path) -> Table:
    """The clips that are held out first, 0 and 3."""
    whole = table(replace(TINY, seeds={}, clips=str(clips)))
    return replace(whole, rows=(whole.rows[0], whole.rows[3]))


def column(dataset: Dataset, name: str) -> np.ndarray:
    return np.asarray(dataset.array(name)[:])


@pytest.mark.usefixtures("in_this_process")
def test_real_cells_of_a_fold(clips: Path, tmp_path: Path) -> None:
    small = first_fold(clips)
    assert len(small.cells) == 2  # with the head and without it; four steps are as good as untrained
    assert reproduce(small, tmp_path, 1, "cpu") == {}
    folder = Folder(tmp_path)
    cell = small.cells[0]
    truth = cell.measures[0].on
    assert truth is not None
    ours, true = open_dataset(folder.dataset(cell.training.data)), open_dataset(folder.dataset(truth))
    assert ours.action_dim == true.action_dim == 0
    np.testing.assert_array_equal(column(ours, "frames"), column(true, "frames"))
    assert ours.sources == true.sources == [f"nball-{number:04}.mp4" for number in range(CLIPS)]
    assert ours.split("validation").tolist() == true.split("validation").tolist() == [0, 3]
    assert [row.name for row in true.categories] == ["object"]
    assert len(ours.categories) == 2  # red and white, as the labeler sees it
    assert not column(true, "present")[-24:].any()  # nobody knows
    assert column(ours, "present")[-24:].any()
    figures = folder.figures(cell.training, cell.measures[0])
    assert figures is not None
    assert set(figures) == {f"nball-000{n}: {what}" for n in (0, 3) for what in ("Spearman", "probe r")}
    assert all(np.isfinite(figure.value) for figure in figures.values())
    text = (tmp_path / "real-clips-cpu.md").read_text()
    assert "Spearman, mean over 2 held-out clips: with the head" in text
    assert "Student's t over clips" in text


@given(st.integers(1, 40), st.integers(2, 5))
def test_each_clip_is_held_out_once(episodes: int, folds: int) -> None:
    held_out = [Fold(number=number, of=folds).choose(episodes) for number in range(folds)]
    np.testing.assert_array_equal(np.sum(held_out, axis=0), np.ones(episodes))


def test_clips_are_compared_one_by_one(clips: Path, tmp_path: Path) -> None:
    whole = table(replace(CPU, seeds={}, clips=str(clips)))
    folder = Folder(tmp_path)
    values = {"with the head": 0.5, "LeWM": 0.3, "untrained": 0.1}
    for cell in whole.cells:
        value = next(value for name, value in values.items() if name in cell.training.label)
        for measure in cell.measures:
            clip = {f"nball-{n:04}: Spearman": Figure(value + 0.1 * (n % 2) * (value > 0.4)) for n in range(4)}
            folder.write(cell.training, measure, clip, Times(1, 1))
    assert whole.find is not None
    said = whole.find(folder)
    assert said[0] == "Spearman, mean over 4 held-out clips: with the head 0.550, LeWM 0.300, untrained 0.100."
    assert said[1].startswith(
        "Spearman: with the head higher than without it in 4 of 4 clips, by 0.250 on average (0.1"
    )
    assert len(said) == 3  # of the probe nothing is known


def test_too_few_clips_are_refused(clips: Path, tmp_path: Path) -> None:
    few = shutil.copytree(clips, tmp_path / "few", ignore=shutil.ignore_patterns("*0.*", "*1.*", "*2.*"))
    with pytest.raises(DatasetError, match=r"1 of the 2 clips in .*few have true boxes beside them"):
        table(replace(CPU, clips=str(few)))


def test_without_a_folder_it_says_what_it_needs() -> None:
    empty = table(CPU)
    assert empty.cells == ()
    assert "--videos DIR" in empty.needs


def test_it_takes_at_most_three_hours_on_two_cores(clips: Path) -> None:
    whole = table(replace(CPU, clips=str(clips)))
    assert len(whole.rows) == CLIPS - 1  # without true boxes there is nothing to judge
    assert 30 < whole.minutes(2) <= 180
    assert len({cell.training.id for cell in whole.cells}) == len(whole.cells) == FOLDS * 7
    assert pickle.dumps(whole.cells)  # they are sent to other processes


def test_another_folder_is_another_dataset_and_the_same_one_is_not(clips: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(clips, tmp_path / "copy")
    before = fingerprint(str(clips))
    assert fingerprint(str(copy)) == before
    told = json.loads((copy / "nball-0000.json").read_text())
    told["objects"].pop()
    (copy / "nball-0000.json").write_text(json.dumps(told))
    assert fingerprint(str(copy)) != before
    with pytest.raises(DatasetError, match="has changed since"):
        Clips(str(copy), before, 16, 0, 3, True).make(tmp_path / "true.zarr")


def test_what_does_not_count_is_left_out(tmp_path: Path) -> None:
    box = [0, 0, 4, 4]
    objects = [
        {"role": "main", "boxes": [box, None, box], "visibility": [1.0, 0.0, 0.05]},
        {"role": "part", "boxes": [box] * 3},
        {"role": "static", "boxes": [box] * 3},
        {"boxes": [None] * 3},
        {"boxes": [box] * 3},
    ]
    (tmp_path / "a.json").write_text(json.dumps({"objects": objects}))
    first, second = true_boxes(tmp_path / "a.mp4")
    assert np.isfinite(first[:, 0]).tolist() == [True, False, False]
    assert np.isfinite(second).all()
    assert true_boxes(tmp_path / "b.mp4") == []


@pytest.mark.parametrize("text", ["{}", "no JSON", '{"objects": [{"boxes": [[1, 2]]}]}', "[]"])
def test_true_boxes_that_cannot_be_read_are_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DatasetError, match=r"a\.json does not say true boxes"):
        true_boxes(tmp_path / "a.mp4")


def test_true_boxes_of_another_length_stop_the_dataset(clips: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(clips, tmp_path / "copy")
    told = json.loads((copy / "nball-0001.json").read_text())
    for one in told["objects"]:
        one["boxes"].pop()
    (copy / "nball-0001.json").write_text(json.dumps(told))
    with pytest.raises(DatasetError, match=r"nball-0001\.mp4 has 24 frames, but boxes of 23"):
        Clips(str(copy), fingerprint(str(copy)), 16, 0, 3, True).make(tmp_path / "true.zarr")
    assert not (tmp_path / "true.zarr").exists()


def test_a_clip_is_read_block_by_block(clips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BLOCK", 10)
    config = PrepareConfig(size=16, letterbox=True, use_actions=False)
    first, *_ = Filmed(Clips(str(clips), "", 16, 0, 3, true=True), config, None).takes(lambda source, reason: None)
    assert [len(block) for block in first.pictures] == [10, 10, 4]


@pytest.mark.parametrize(
    "spoil", [{"visibility": [1.0]}, {"boxes": [[0, 0, 4, 4]]}, {"boxes": [[0, 0, 4]]}], ids=["seen", "few", "short"]
)
def test_true_boxes_that_do_not_fit_one_another_are_named(tmp_path: Path, spoil: dict[str, object]) -> None:
    two = [{"boxes": [[0, 0, 4, 4], None]}, {"boxes": [[0, 0, 4, 4], None], **spoil}]
    (tmp_path / "a.json").write_text(json.dumps({"objects": two}))
    with pytest.raises(DatasetError, match=r"a\.json does not say true boxes"):
        true_boxes(tmp_path / "a.mp4")
