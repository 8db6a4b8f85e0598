"""`spectrabox reproduce` with the tables that the paper does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flows.test_reproduce import spectrabox
from training.reproduction.beyond import BEYOND
from training.simulate import simulate_videos


def test_they_are_named_after_the_papers() -> None:
    listed = spectrabox("--list").output
    for name in BEYOND:
        assert listed.index("regularizers") < listed.index(name)
    assert "with --videos" in listed


@pytest.mark.parametrize("more", [(), ("--dry-run",), ("--flow",)])
def test_real_clips_without_clips_are_skipped_and_say_why(more: tuple[str, ...], tmp_path: Path) -> None:
    said = spectrabox("real-clips", "--out", tmp_path / "out", *more)
    assert said.exit_code == 0
    assert "skipped: real-clips needs clips with true boxes" in said.output
    assert "--videos DIR" in said.output
    assert not (tmp_path / "out").exists()


def test_a_folder_of_clips_makes_cells(tmp_path: Path) -> None:
    simulate_videos("nball", tmp_path / "clips", episodes=3, frames=24, balls=1)
    said = spectrabox("real-clips", "--videos", tmp_path / "clips", "--out", tmp_path / "out", "--dry-run")
    assert said.exit_code == 0, said.output
    assert "21 of 21 cells and 6 datasets are left" in " ".join(said.output.split())


@pytest.mark.parametrize("name", ["nothing", "empty"])
def test_a_folder_without_clips_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    said = spectrabox("real-clips", "--videos", tmp_path / name)
    assert said.exit_code == 2
