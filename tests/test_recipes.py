"""Commands and code of README, quick start and recipes, run as they stand but for the size of what they make."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import training
from flows.cli import app
from labeling import open_store
from tests.labeling.odd_videos import video
from tests.labeling.test_moving import OBJECT, SCENE
from training.dataset_format import open_dataset
from training.envs import make
from training.envs.video import record, write_episode

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
# Less to do for commands that take long: what is said last counts.
SMALL = {
    "train": "--set steps=3 --set batch=8 --set validate_every=3 --set monitor_windows=16",
    "simulate": "--episodes 4 --frames 24",
}
SERVERS = ("review", "serve", "watch")  # go on until they are stopped, and have tests of their own


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Carry out lines of commands in `tmp_path`, and stop at the first that fails; returns what they said."""
    monkeypatch.chdir(tmp_path)

    def run(lines: str) -> str:
        said = ""
        for line in filter(None, map(str.strip, lines.splitlines())):
            program, command, *rest = shlex.split(line, comments=True)
            assert program == "spectrabox", line
            if command in SERVERS:
                continue
            done = CliRunner().invoke(app, [command, *rest, *SMALL.get(command, "").split()])
            assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"
            said += done.output
        return said

    return run


def section(page: str, title: str) -> str:
    """The text of the section of a page with these words in its title."""
    sections = re.split(r"^## ", (ROOT / page).read_text(), flags=re.MULTILINE)
    return next(text for text in sections if title in text.partition("\n")[0])


def blocks(text: str, language: str) -> list[str]:
    """Blocks of code in this language, also those inside lists."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{indent}", "", code, flags=re.MULTILINE) for indent, code in found]


def test_everyday_commands_and_training_of_the_readme(shell, tmp_path: Path) -> None:
    for seed in (1, 2):
        write_episode(tmp_path / "videos" / f"{seed}.mp4", record(make("nball", balls=1), 40, seed))
    shell(blocks(section("README.md", "everyday commands"), "")[0])
    assert len(open_store(tmp_path / "labels.zarr")) == 2
    assert (tmp_path / "report" / "index.html").is_file()
    assert (tmp_path / "coco" / "annotations").is_dir()
    shell(blocks(section("README.md", "Train a world model"), "")[0])
    assert training.load(tmp_path / "run", "last").step == 3


def test_the_quick_start_from_the_first_line_to_the_last(shell, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "quick_start.md").read_text()
    said = shell("\n".join(blocks(page, "sh")))
    assert "All that is needed works." in said
    for made in ("report/index.html", "coco/annotations", "run/evaluation/index.html"):
        assert (tmp_path / made).exists()
    assert len(list((tmp_path / "overlays").rglob("*.mp4"))) == 4
    for code in blocks(page, "python"):
        exec(code, {})


def test_my_camera_moves(shell, tmp_path: Path) -> None:
    frames = np.stack([SCENE[:, 3 * t : 3 * t + 320] for t in range(24)])
    for t, frame in enumerate(frames):
        frame[90:140, 40 + 6 * t : 100 + 6 * t] = OBJECT[:50, :60]
    (tmp_path / "drone").mkdir()
    video(tmp_path / "drone" / "pan.mp4", frames)
    shell("\n".join(blocks(section("docs/recipes.md", "My camera moves"), "sh")))
    tracks = open_store(tmp_path / "drone.zarr")["pan"].tracks
    centre = (tracks.boxes[..., :2] + tracks.boxes[..., 2:]) / 2
    moved = np.nanmax(centre[..., 0], axis=0) - np.nanmin(centre[..., 0], axis=0)
    assert moved.max() == pytest.approx(6 * 23, abs=20), "the thing that moves by itself is followed all the way"


def test_objects_stand_still(shell, tmp_path: Path) -> None:
    frames = np.full((24, 96, 128, 3), 20, np.uint8)
    frames[:, 40:60, 30:50] = 250
    (tmp_path / "shelf").mkdir()
    video(tmp_path / "shelf" / "box.mp4", frames)
    shell("spectrabox label shelf --out without.zarr")
    assert len(open_store(tmp_path / "without.zarr")["box"].tracks) == 0
    shell("\n".join(blocks(section("docs/recipes.md", "Objects stand still"), "sh")))
    tracks = open_store(tmp_path / "shelf.zarr")["box"].tracks
    np.testing.assert_allclose(tracks.boxes[:, 0], [[30, 40, 50, 60]] * 24, atol=1)
    assert np.asarray(open_dataset(tmp_path / "shelf-data.zarr").array("present")).all()


def test_train_with_my_robots_actions(shell, tmp_path: Path) -> None:
    recipe = section("docs/recipes.md", "Train with my robot's actions")
    for name, seed in (("pick", 1), ("place", 2)):
        episode = record(make("nball", balls=1), 60, seed)
        write_episode(tmp_path / "robot" / f"{name}.mp4", episode)
        rows = "\n".join(f"{x:.4f},{y:.4f}" for x, y in episode.actions)
        (tmp_path / "robot" / f"{name}.actions.csv").write_text(f"joint_1,joint_2\n{rows}\n")
    assert "2 numbers an action" in shell("\n".join(blocks(recipe, "sh")))
    assert training.load(tmp_path / "robot-run", "last").model.actions == 2
    names: dict[str, np.ndarray] = {}
    exec(blocks(recipe, "python")[0], names)
    assert names["actions"].shape == (5, 2)
