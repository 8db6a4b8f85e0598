"""Labels of our own in the place of true boxes: films are made, labeled and trained on; truth judges."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.training.reproduction.tiny_scale import TINY
from training import load
from training.dataset import Dataset, open_dataset
from training.envs import video
from training.evaluation.latents import encoded
from training.reproduction.beyond.labeled import Labeled
from training.reproduction.beyond.labels import NAME, WORLDS, table
from training.reproduction.cells import Figure, Folder
from training.reproduction.run import reproduce
from training.reproduction.scale import Scale
from training.reproduction.scales import CPU, PAPER
from training.reproduction.table import Table

EPISODES = 10  # of 24 frames


@pytest.fixture(scope="module")
def done(in_this_process: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cell of one ball with our labels, trained and judged."""
    out = tmp_path_factory.mktemp("labels")
    assert reproduce(one_row(), out, 1, "cpu") == {}
    return out


def one_row() -> Table:
    """One ball, our labels."""
    worlds = {name: replace(world, episodes=EPISODES, frames=24) for name, world in TINY.worlds.items()}
    whole = table(replace(TINY, worlds=worlds, seeds={}))
    return replace(whole, rows=tuple(row for row in whole.rows if row.label == "n = 1, our labels"))


def datasets(out: Path) -> tuple[Dataset, Dataset]:
    """With our labels and with true boxes."""
    ours = one_row().cells[0].training.data
    assert isinstance(ours, Labeled)
    return open_dataset(Folder(out).dataset(ours)), open_dataset(Folder(out).dataset(ours.world))


def test_only_the_boxes_differ(done: Path) -> None:
    ours, true = datasets(done)
    for column in ("frames", "actions", "state"):
        np.testing.assert_array_equal(np.asarray(ours.array(column)[:]), np.asarray(true.array(column)[:]))
    np.testing.assert_array_equal(ours.episode_length, true.episode_length)
    np.testing.assert_array_equal(ours.split("validation"), true.split("validation"))
    assert true.world is not None
    assert ours.world == true.world.model_copy(update={"labeled": True})
    assert ours.fingerprint != true.fingerprint


def test_the_labeler_found_both_balls_and_told_them_apart(done: Path) -> None:
    ours, true = datasets(done)
    assert len(ours.categories) == 2
    found, real = (np.asarray(dataset.array("boxes")[:]) for dataset in (ours, true))
    near = np.abs(found[:, :, None] - real[:, None]).max(axis=-1) < 0.02
    assert near.any(axis=1).mean() > 0.9


def test_figures_are_those_of_the_truth(done: Path) -> None:
    cells = one_row().cells
    found: dict[str, Figure] = {}
    for measure in cells[0].measures:
        found |= Folder(done).figures(cells[0].training, measure) or {}
    assert found["plans"].trials == found["random"].trials == 3
    assert {"control ball, position", "ball, position", "everything, position"} <= set(found)  # names of the simulator
    assert "everything: linear r" in found
    assert found["HOTA"].value > 0.9
    assert 0 < found["edges"].value < 0.01
    assert found["kinds"].value == 1


def test_what_is_judged_by_our_labels_has_no_order_of_alike_objects(done: Path) -> None:
    model = load(Folder(done).run(one_row().cells[0].training))
    assert [encoded(model, dataset, "validation", 5).ordered for dataset in datasets(done)] == [False, True]


def test_films_and_label_store_do_not_stay_behind(done: Path) -> None:
    assert sorted(path.suffix for path in (done / "datasets").iterdir() if path.is_dir()) == [".zarr", ".zarr"]


def test_filming_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = one_row().cells[0].training.data
    assert isinstance(ours, Labeled)
    drawn: list[Path] = []
    encode = video.encode

    def stopped(path: Path, *others: Any) -> None:
        if len(drawn) == 4:
            raise KeyboardInterrupt
        drawn.append(path)
        encode(path, *others)

    monkeypatch.setattr(video, "encode", stopped)
    with pytest.raises(KeyboardInterrupt):
        ours._film(tmp_path / "films")
    monkeypatch.setattr(video, "encode", lambda path, *others: (drawn.append(path), encode(path, *others)))
    names = ours._film(tmp_path / "films")
    assert len(names) == len(drawn) == EPISODES
    assert sorted(path.name for path in (tmp_path / "films").iterdir()) == names
    once = {name: (tmp_path / "films" / name).read_bytes() for name in names}
    assert {name: (tmp_path / "again" / name).read_bytes() for name in ours._film(tmp_path / "again")} == once


def test_the_page_has_no_column_of_the_paper(done: Path) -> None:
    text = (done / "labels-cpu.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| n = 1, our labels |"))
    assert row.count("|") == 15
    assert "/" not in row


@pytest.mark.parametrize("scale", [CPU, PAPER])
def test_rows_of_a_world_differ_in_boxes_and_head_alone(scale: Scale) -> None:
    rows = {row.label: row for row in table(scale).rows}
    for world, (title, _, _) in WORLDS.items():
        true, ours, plain = (rows[f"{title}, {name}"].entries for name in ("true boxes", "our labels", "LeWM"))
        data = scale.worlds[f"{NAME}, {world}"]
        assert true[0].trainings[0].data == plain[0].trainings[0].data == data
        assert ours[0].trainings[0].data == Labeled(data)
        assert ours[0].trainings[0].settings == true[0].trainings[0].settings
        assert {entry.measure.on for entry in ours[:7] if entry.measure} == {data}  # judged by the truth
        assert len(ours[0].trainings) == len(true[0].trainings)


def test_cells_can_be_sent_to_another_process() -> None:
    assert pickle.dumps(table(CPU).cells)


def test_it_takes_at_most_three_hours_on_two_cores() -> None:
    assert 60 < table(CPU).minutes(2) <= 180
    assert len({cell.training.id for cell in table(CPU).cells}) == len(table(CPU).cells) == 17
