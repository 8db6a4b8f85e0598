"""`spectrabox export` and `import` as a user runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from labeling.export import FORMATS
from labeling.validate import validate
from tests.labeling.conftest import build_store


def test_labels_leave_and_come_back_by_two_commands(spectrabox, tmp_path: Path) -> None:
    build_store(tmp_path, "a.mp4", "b.mp4")
    left = spectrabox("export", "labels.zarr", "--format", "mot", "--out", "mot", "--licence", "CC0", cwd=tmp_path)
    assert (left.returncode, left.stdout.strip()) == (0, "2 videos as mot: mot"), left.stderr
    back = spectrabox("import", "mot", "--videos", "videos", "--out", "truth.zarr", cwd=tmp_path)
    assert back.returncode == 0, back.stderr
    assert "4 tracks of 2 videos: truth.zarr" in back.stdout
    assert validate(tmp_path / "truth.zarr") == []


def test_a_video_that_is_left_out_is_named_and_makes_exit_code_1(spectrabox, tmp_path: Path) -> None:
    build_store(tmp_path, "a.mp4", "b.mp4")
    (tmp_path / "videos" / "a.mp4").unlink()
    made = spectrabox("export", "labels.zarr", "--format", "yolo", "--out", "yolo", cwd=tmp_path)
    assert made.returncode == 1
    assert "left out a.mp4" in made.stdout
    assert (tmp_path / "yolo" / "data.yaml").is_file()


def test_faults_of_imported_files_are_one_sentence_with_the_line(spectrabox, tmp_path: Path) -> None:
    build_store(tmp_path, "a.mp4")
    (tmp_path / "a.txt").write_text("1,1,1,1,9,9\n1,2,x,1,9,9\n")
    made = spectrabox("import", "a.txt", "--videos", "videos", "--out", "truth.zarr", cwd=tmp_path)
    assert made.returncode == 2
    assert "a.txt:2: could not convert string to float: 'x'" in made.stderr
    assert "Traceback" not in made.stderr


@pytest.mark.parametrize("command", ["export", "import"])
def test_help_names_what_there_is(spectrabox, command: str) -> None:
    shown = spectrabox(command, "--help")
    assert shown.returncode == 0
    if command == "export":
        assert all(name in shown.stdout for name in FORMATS)
