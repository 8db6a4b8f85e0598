"""`spectrabox score` as a user runs it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.labeling.scored_clips import box, store_with, thing, truth_beside
from training.envs import make
from training.envs.video import record, write_episode


@pytest.mark.slow
def test_simulated_clips_are_labeled_and_judged_by_what_lies_beside_them(spectrabox, tmp_path: Path) -> None:
    for seed in (1, 2):
        write_episode(tmp_path / "clips" / f"balls-{seed}.mp4", record(make("nball", balls=2), 40, seed), truth=True)
    assert spectrabox("label", "clips", cwd=tmp_path).returncode == 0
    judged = spectrabox("score", "labels.zarr", "--truth", "clips", cwd=tmp_path)
    assert judged.returncode == 0, judged.stderr
    data = json.loads((tmp_path / "score" / "score.json").read_text())
    assert [clip["name"] for clip in data["clips"]] == ["balls-1", "balls-2"]
    assert data["mean"]["hota"] > 0.9
    assert data["mean"]["edge_error"] < 0.5
    assert data["mean"]["category_ari"] == 1
    assert data["notes"] == []
    assert (tmp_path / "score" / "index.html").is_file()


def test_the_table_fits_into_80_columns_and_says_what_is_missing(spectrabox, tmp_path: Path) -> None:
    store_with(tmp_path / "labels.zarr", {"a.mp4": [box(5)]})
    folder = truth_beside(tmp_path / "truth", "a", [thing(box(5))])
    truth_beside(folder, "a clip with a very long name [red]", [thing(box(5))])
    judged = spectrabox("score", "labels.zarr", "--truth", "truth", cwd=tmp_path, env=os.environ | {"COLUMNS": "80"})
    assert judged.returncode == 0, judged.stderr
    lines = judged.stdout.splitlines()
    lines = lines[: 1 + next(number for number, line in enumerate(lines) if line.startswith("mean"))]
    assert max(map(len, lines)) <= 80
    assert "…" not in judged.stdout
    assert lines[0].split() == [
        "clip", "HOTA", "DetA", "AssA", "IDF1", "AP50", "AP", "AR", "rec.", "prec", "IDsw", "edge", "ARI", "cov.",
    ]  # fmt: skip
    assert lines[-1].split()[:5] == ["mean", *[".500"] * 4]
    assert "[red] missing" in " ".join(judged.stdout.split())
    assert "not in the store, so all objects there count as missed" in judged.stdout


def test_a_clip_that_cannot_be_judged_makes_exit_code_1(spectrabox, tmp_path: Path) -> None:
    store_with(tmp_path / "labels.zarr", {"a.mp4": [box(5)], "b.mp4": [box(5)]})
    folder = truth_beside(tmp_path / "truth", "a", [thing(box(5))])
    truth_beside(folder, "b", [thing(box(5))], width=7)
    judged = spectrabox("score", "labels.zarr", "--truth", "truth", cwd=tmp_path)
    assert judged.returncode == 1
    assert "not judged b: " in judged.stdout
    assert "it is for 7 x 50 pixels" in judged.stdout
    assert json.loads((tmp_path / "score" / "score.json").read_text())["mean"]["hota"] == 1


def test_truth_that_is_not_there_is_one_sentence(spectrabox, tmp_path: Path) -> None:
    store_with(tmp_path / "labels.zarr", {"a.mp4": [box(5)]})
    judged = spectrabox("score", "labels.zarr", "--truth", "nowhere", cwd=tmp_path)
    assert judged.returncode == 2
    assert "nowhere does not exist" in judged.stderr
    assert "Traceback" not in judged.stderr
