"""MOTChallenge: read back as its own tools read it."""

from __future__ import annotations

import configparser
from pathlib import Path

import numpy as np
import pytest

from labeling.export import ExportConfig, export
from labeling.store import Store
from labeling.video import Video
from tests.labeling.export.conftest import CONFIG, same, truth


def read(folder: Path) -> tuple[dict, dict]:
    """Boxes and the rest of each row; found through the seqmap and seqinfo.ini, as TrackEval does it."""
    boxes, rest = {}, {}
    for split in ("train", "val"):
        for name in (folder / "seqmaps" / f"{split}.txt").read_text().splitlines()[1:]:
            info = configparser.ConfigParser()
            info.read(folder / split / name / "seqinfo.ini")
            sequence = info["Sequence"]
            assert (sequence["name"], sequence["imWidth"], sequence["imHeight"]) == (name, "96", "64")
            for row in np.loadtxt(folder / split / name / "gt" / "gt.txt", delimiter=",", ndmin=2):
                assert 1 <= row[0] <= int(sequence["seqLength"])
                key = sequence["source"], int(row[0]) - 1, int(row[1])
                left, top = row[2:4] - 1  # pixels count from 1
                boxes[key] = left, top, left + row[4], top + row[5]
                rest[key] = row[6:].tolist()
    return boxes, rest


def test_every_box_is_found_again(store: Store, tmp_path: Path) -> None:
    made = export(store, "mot", tmp_path / "mot", CONFIG)
    boxes, rest = read(made.path)
    same(boxes, truth(store))
    assert {(key[2], *row) for key, row in rest.items()} == {(1, 1, 1, 0.9), (2, 1, 3, 0.9)}
    names = next(made.path.glob("*/*/gt/labels.txt")).read_text().splitlines()
    assert names == ["object-1", "object-2", "unassigned"]


def test_trackeval_reads_every_box_and_finds_it_where_it_was(store: Store, tmp_path: Path) -> None:
    trackeval = pytest.importorskip("trackeval")
    made, found = export(store, "mot", tmp_path / "mot", CONFIG).path, {}
    for split in ("train", "val"):
        tracker = tmp_path / split / "ours" / "data"
        tracker.mkdir(parents=True)
        for file in (made / split).glob("*/gt/gt.txt"):
            rows = np.loadtxt(file, delimiter=",", ndmin=2)
            rows[:, 7] = 1  # TrackEval takes pedestrians only from a tracker
            np.savetxt(tracker / f"{file.parents[1].name}.txt", rows, "%.9g", ",")
        challenge = trackeval.datasets.MotChallenge2DBox({
            "GT_FOLDER": str(made / split), "TRACKERS_FOLDER": str(tmp_path / split), "SKIP_SPLIT_FOL": True,
            "SEQMAP_FILE": str(made / "seqmaps" / f"{split}.txt"), "DO_PREPROC": False, "PRINT_CONFIG": False,
        })  # fmt: skip
        for name in challenge.seq_list:
            raw = challenge.get_raw_seq_data("ours", name)
            info = configparser.ConfigParser()
            info.read(made / split / name / "seqinfo.ini")
            for frame, (ids, boxes) in enumerate(zip(raw["gt_ids"], raw["gt_dets"], strict=True)):
                for id, (left, top, width, height) in zip(ids.tolist(), boxes, strict=True):
                    edges = np.array([left, top, left + width, top + height]) - 1  # pixels count from 1
                    found[info["Sequence"]["source"], frame, id] = edges
            judged = trackeval.metrics.HOTA().eval_sequence(challenge.get_preprocessed_seq_data(raw, "pedestrian"))
            assert (judged["HOTA"] > 0.999).all()
    same(found, truth(store))


def test_what_was_dropped_is_not_considered(store: Store, tmp_path: Path) -> None:
    boxes, rest = read(export(store, "mot", tmp_path / "mot", ExportConfig(dropped=True)).path)
    same(boxes, truth(store, dropped=True))
    assert {key[2]: row[0] for key, row in rest.items()} == {1: 1, 2: 1, 7: 0}


def test_pictures_are_a_video_of_their_own(store: Store, tmp_path: Path) -> None:
    made = export(store, "mot", tmp_path / "mot", ExportConfig(pictures=True))
    for folder in made.path.glob("*/*/img1"):
        video = Video(folder)
        assert (video.expected_frames, video.height, video.width) == (24, 64, 96)
        assert (folder / "000001.jpg").is_file()


@pytest.mark.parametrize("name", ["a % b [x].mp4", "line\nbreak.mp4"])
def test_odd_names_do_not_break_the_files(make_store, tmp_path: Path, name: str) -> None:
    made = export(make_store(name, videos=False), "mot", tmp_path / "mot")
    assert {" ".join(name.split())} == {key[0] for key in read(made.path)[0]}
