"""The weights commands as a user meets them."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from flows.weights_cli import app
from labeling.checkpoints import KNOWN, Checkpoint
from tests.labeling.weight_server import weight_server

CONTENT = b"weights" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `spectrabox weights ...` on a folder of its own, on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments: object) -> Result:
        return CliRunner().invoke(app, [*map(str, arguments), "--folder", str(tmp_path / "weights")])

    return command


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "mine.pth").write_bytes(CONTENT)
    return tmp_path / "mine.pth"


@pytest.mark.parametrize("command", ["list", "fetch", "add", "verify", "remove"])
def test_each_command_explains_itself(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_the_commands_load_no_heavy_library() -> None:
    code = (
        "import sys, flows.weights_cli;"
        "print([m for m in ('torch', 'transformers', 'huggingface_hub', 'numpy', 'zarr') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "[]"


def test_looking_weights_up_loads_no_network_library() -> None:
    code = (
        "import sys, labeling.weights as w, pathlib; w.listing(pathlib.Path('/nowhere'));"
        "print([m for m in ('torch', 'transformers', 'huggingface_hub', 'httpx2') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "[]"


def test_the_list_names_licences_and_what_is_here(run: Run, checkpoint: Path, tmp_path: Path) -> None:
    assert run("add", "mine", checkpoint).exit_code == 0
    result = run("list")
    assert result.exit_code == 0
    for text in ("videocutler", "non-commercial", "facebook/sam3", "gated", "~3.4 GB", str(tmp_path / "weights")):
        assert text in result.output
    rows = {
        line.split("│")[1].strip(): line.split("│")[-2].strip() for line in result.output.splitlines() if "│" in line
    }
    assert rows["mine"] == "yes"
    assert rows["videocutler"] == "no"


def test_a_narrow_terminal_cuts_no_name_and_no_licence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output = run("list").output
    assert "…" not in output
    assert all(name in output for name in KNOWN)


def test_add_prints_where_it_is_and_its_hash(run: Run, checkpoint: Path, tmp_path: Path) -> None:
    result = run("add", "mine", checkpoint)
    assert result.exit_code == 0
    assert str(tmp_path / "weights" / "mine" / "files" / "mine.pth") in result.output
    assert SHA256 in result.output
    linked = run("add", "mine", checkpoint, "--link")
    assert linked.exit_code == 0
    assert (tmp_path / "weights" / "mine" / "files" / "mine.pth").is_symlink()


def test_fetch_prints_the_licence_and_the_hash(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with weight_server() as server:
        server.files["/disc.pth"] = CONTENT
        disc = Checkpoint(
            "disc", "a test", "MIT, of sorts", 1, "disc.pth", f"{server.url}/disc.pth", "https://example.org"
        )
        monkeypatch.setitem(KNOWN, "disc", disc)
        result = run("fetch", "disc")
    assert result.exit_code == 0, result.output
    for text in ("MIT, of sorts", "https://example.org", SHA256):
        assert text in result.output


def test_verify_tells_good_from_wrong(run: Run, checkpoint: Path, tmp_path: Path) -> None:
    assert "No weights" in run("verify").output
    run("add", "mine", checkpoint)
    run("add", "other", checkpoint)
    good = run("verify")
    assert good.exit_code == 0
    assert good.output.split() == ["good", "mine", "good", "other"]
    (tmp_path / "weights" / "mine" / "files" / "mine.pth").write_bytes(b"x")
    wrong = run("verify")
    assert wrong.exit_code == 1
    assert "wrong" in wrong.output
    assert SHA256 in wrong.output
    assert "good  other" in wrong.output
    assert run("verify", "other").exit_code == 0


def test_remove_says_what_it_frees_and_leaves_the_rest(run: Run, checkpoint: Path, tmp_path: Path) -> None:
    home = tmp_path / "weights"
    for name in ("mine", "other"):
        run("add", name, checkpoint)
    freed = sum(path.stat().st_size for path in (home / "mine").rglob("*") if path.is_file())
    result = run("remove", "mine")
    assert result.exit_code == 0
    assert result.output == f"Removed mine: {freed / 1000:.1f} kB freed.\n"
    assert not (home / "mine").exists()
    assert run("verify").output.split() == ["good", "other"]
    assert run("remove", "mine").exit_code == 2


def test_remove_leaves_linked_files_alone(run: Run, checkpoint: Path, tmp_path: Path) -> None:
    run("add", "mine", checkpoint, "--link")
    assert "bytes freed" in run("remove", "mine").output, "only the record was a file of its own"
    assert checkpoint.read_bytes() == CONTENT
    assert not (tmp_path / "weights" / "mine").exists()


def test_remove_clears_away_a_broken_download(run: Run, tmp_path: Path) -> None:
    begun = tmp_path / "weights" / ".partial" / "videocutler" / "half.pth"
    begun.parent.mkdir(parents=True)
    begun.write_bytes(CONTENT)
    assert run("remove", "videocutler").output == "Removed videocutler: 7.0 kB freed.\n"
    assert not begun.parent.exists()


@pytest.mark.parametrize("size", ["tiny", "small", "base_plus", "large"])
def test_the_files_of_the_native_tracker_are_listed_and_found_by_name(run: Run, size: str) -> None:
    name = f"sam2.1_hiera_{size}.pt"
    assert name in run("list").output
    assert f"spectrabox weights fetch {name}" in run("verify", name).output
    assert KNOWN[name].url.endswith(f"/{name}")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("fetch", "videocuttler"), "Did you mean videocutler"),
        (("verify", "videocutler"), "spectrabox weights fetch videocutler"),
        (("add", "../up", "mine.pth"), "no name for weights"),
        (("remove", "../up"), "no name for weights"),
        (("remove", "/"), "no name for weights"),
        (("remove", ".."), "no name for weights"),
        (("remove", ".locks"), "no name for weights"),
        (("remove", "videocutler"), "There are no weights called videocutler"),
        (("add", "mine", "/no/such/file"), "There is no file or folder /no/such/file"),
    ],
)
def test_errors_are_sentences(run: Run, arguments: tuple[str, ...], text: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert text in result.output
    assert "Traceback" not in result.output
