"""`spectrabox doctor` on a machine that is fit, and on one where much is really broken."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from labeling import doctor, weights
from tests.faults.trouble import remount, small_disk

pytestmark = pytest.mark.slow

NO_LIBRARY = "raise ImportError('libGL.so.1: cannot open shared object file: No such file or directory')"
CRASH = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"


def examined(folder: Path, *options: object, **environment: str) -> tuple[int, dict[str, list[str]], str]:
    """Exit code, what was said by subject, and all of the output, of the command as a user runs it."""
    command = [sys.executable, "-m", "flows.cli", "doctor", str(folder), *map(str, options)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "PYTHONPATH"))}
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env={**clean, **environment}
    )
    assert "Traceback" not in ended.stdout + ended.stderr
    said: dict[str, list[str]] = {}
    for line in ended.stdout.splitlines():
        if line.startswith(("good", "note", "broken")):
            state, what, words = line.split(maxsplit=2)
            said.setdefault(what, []).append(f"{state} {words}")
    return ended.returncode, said, ended.stdout


def put_in_the_way(folder: Path, **modules: str) -> str:
    """A folder for PYTHONPATH whose modules come before those that are installed."""
    for name, code in modules.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(code)
    return str(folder)


def claim(folder: Path, name: str, version: str) -> None:
    """Let a package of this version seem to be installed."""
    place = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    place.mkdir()
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A cache of weights with a whole checkpoint, and one in which a single bit has changed."""
    cache = tmp_path / "weights"
    for name in ("whole", "bitten"):
        file = tmp_path / f"{name}.pth"
        file.write_bytes(os.urandom(4096))
        place = weights.add(name, file, cache).path
    content, times = bytearray(place.read_bytes()), place.stat()
    content[1000] ^= 1
    place.write_bytes(content)
    os.utime(place, ns=(times.st_atime_ns, times.st_mtime_ns))
    return cache


def test_a_machine_that_passes_the_tests_is_fit(tmp_path: Path) -> None:
    code, said, out = examined(tmp_path, "--weights", tmp_path / "none")
    assert code == 0, out
    assert out.endswith("All that is needed works.\n")
    assert set(said) == {
        "python",
        "packages",
        "extras",
        "decoders",
        "torch",
        "prefect",
        "weights",
        "disk",
        "simulators",
    }
    for container in ("mp4", "mov", "avi", "mkv", "webm", "gif", "jpg", "png"):
        assert container in said["decoders"][0]
    assert list(tmp_path.iterdir()) == [], "what was written for a check is gone"


def test_all_that_is_broken_is_named_at_once_with_what_to_do(tmp_path: Path, damaged: Path) -> None:
    path = put_in_the_way(
        tmp_path / "path", cv2=NO_LIBRARY, torchvision="raise RuntimeError('operator torchvision::nms does not exist')"
    )
    claim(tmp_path / "path", "av", "1.0")
    claim(tmp_path / "path", "obstore", "0.1")
    claim(tmp_path / "path", "opencv-python", "4.0")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # taken, and nobody listens
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/api"
        code, said, out = examined(tmp_path, "--weights", damaged, PYTHONPATH=path, PREFECT_API_URL=url)
    assert code == 1, out
    broken = {what for what, lines in said.items() if any(line.startswith("broken") for line in lines)}
    assert broken == {"decoders", "torch", "packages", "weights", "prefect"}
    assert "libGL.so.1" in said["decoders"][0]
    assert any("torchvision does not fit torch" in line for line in said["torch"])
    assert "broken av 1.0 (wanted: >=14)" in said["packages"]
    assert any(line.startswith("note opencv-python beside opencv-python-headless") for line in said["packages"])
    assert any(
        line.startswith("note s3 (videos and stores in a bucket) is not here: obstore 0.1") for line in said["extras"]
    )
    assert any("bitten is damaged" in line and "spectrabox weights add bitten" in line for line in said["weights"])
    assert any(line.startswith("good whole, SHA-256") for line in said["weights"])
    assert url in said["prefect"][0]
    assert "or unset PREFECT_API_URL" in out
    assert out.splitlines()[-1].startswith("Broken: ")


def test_what_crashes_or_cannot_draw_ends_its_own_check_alone(tmp_path: Path) -> None:
    path = put_in_the_way(tmp_path / "path", torch=CRASH)
    code, said, out = examined(tmp_path, PYTHONPATH=path, __EGL_VENDOR_LIBRARY_FILENAMES="/nowhere.json")
    assert code == 1, out
    assert said["torch"] == ["broken crashed (SIGSEGV)"]
    assert any(line.startswith("note") and "apt install libegl1" in line for line in said["simulators"])
    assert said["decoders"][0].startswith("good")


def test_full_and_read_only_disks_are_told_apart(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1 << 19) as disk:
        full = doctor.folders(disk / "not" / "there" / "yet")[0]
        remount(disk, "ro,size=1G")
        closed = doctor.folders(disk)[0]
    assert (full.state, closed.state) == ("broken", "broken")
    assert full.remedy.startswith("Make room")
    assert "Read-only file system" in closed.words
    assert closed.remedy.startswith("Give yourself the right to write there")


@pytest.mark.parametrize(("free", "state"), [(50 * 10**6, "broken"), (10**9, "note")])
def test_little_room_is_said_before_it_is_used_up(tmp_path: Path, free: int, state: str) -> None:
    with small_disk(tmp_path / "disk", free) as disk:
        assert doctor.folders(disk)[0].state == state


def test_weights_too_large_to_read_in_a_moment_are_said_so(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "READ_WHOLE", 6000)
    bitten, whole = doctor.weights(damaged)
    assert bitten.state == "broken"
    assert (whole.state, "`spectrabox weights verify` reads every byte" in whole.words) == ("good", True)
