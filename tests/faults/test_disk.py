"""Disks that are full or may not be written: one sentence, a store that is still valid, and nothing lost."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from labeling.folder import Source
from labeling.run import Listener, RunError, label_folder
from labeling.validate import validate
from tests.faults.trouble import remount, small_disk, write_clips
from tests.labeling.test_run import contents

pytestmark = pytest.mark.slow

PAGE = 4096


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clips(tmp_path_factory.mktemp("disk") / "clips")


@pytest.fixture(scope="module")
def reference(clips: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("reference") / "labels.zarr"
    assert not label_folder(clips, out, workers=1).failed
    return out


def bytes_on_disk(store: Path) -> int:
    return sum(-(-path.stat().st_size // PAGE) * PAGE for path in store.rglob("*") if path.is_file())


@pytest.mark.parametrize("share", [0.02, 0.4, 0.9])
def test_a_full_disk_is_named_and_the_run_goes_on_once_there_is_room(
    clips: Path, reference: Path, tmp_path: Path, share: float
) -> None:
    """While the store is made, while videos are tracked, and while labels are written."""
    with small_disk(tmp_path / "disk", int(share * bytes_on_disk(reference)) // PAGE * PAGE) as disk:
        out = disk / "labels.zarr"
        with pytest.raises(RunError) as full:
            label_folder(clips, out, workers=2)
        said = str(full.value)
        assert said.startswith(f"{out}: no space left on the disk"), said
        assert said.endswith(
            "Make room, or choose another --out. Then run the same command again: it goes on from here."
        )
        if share > 0.1:
            assert validate(out) == []
        remount(disk, "size=64m")
        assert not label_folder(clips, out, workers=2).failed
        assert contents(out) == contents(reference)


def test_a_read_only_disk_is_named_and_what_it_holds_can_be_used(clips: Path, reference: Path, tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    videos.mkdir()
    for clip in sorted(clips.iterdir())[:2]:
        (videos / clip.name).write_bytes(clip.read_bytes())
    with small_disk(tmp_path / "disk", 64 << 20) as disk:
        out = disk / "labels.zarr"
        label_folder(videos, out)
        remount(disk, "ro")
        assert label_folder(videos, out).up_to_date, "there is nothing to write"
        with pytest.raises(RunError, match=r"new\.zarr cannot be made: Read-only file system\. Choose another --out"):
            label_folder(videos, disk / "new.zarr")
        before = contents(out)
        (videos / "2.mp4").write_bytes((clips / "2.mp4").read_bytes())
        with pytest.raises(RunError) as refused:
            label_folder(videos, out)
        assert str(refused.value).startswith(f"{out}: the disk is read-only. Mount it for writing, or choose another")
        assert contents(out) == before
        remount(disk, "rw")
        assert not label_folder(videos, out).failed
        assert validate(out) == []


def test_a_disk_that_becomes_read_only_midway_is_named(clips: Path, tmp_path: Path) -> None:
    """What is half-written cannot be removed, then; the user reads why the run ended, and the next one goes on."""
    with small_disk(tmp_path / "disk", 64 << 20) as disk:
        out = disk / "labels.zarr"

        class Failing(Listener):
            def frames(self, source: Source, done: int, expected: int) -> None:
                if any((out / "stages").glob("*/zarr.json")):
                    subprocess.run(["mount", "-o", "remount,ro", disk], check=False)  # fails while a file is written

        with pytest.raises(RunError) as refused:
            label_folder(clips, out, workers=1, listener=Failing())
        assert str(refused.value).startswith(f"{out}: the disk is read-only."), refused.value
        remount(disk, "rw")
        assert not label_folder(clips, out).failed
        assert validate(out) == []
