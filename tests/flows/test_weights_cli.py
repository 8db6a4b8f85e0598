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


@pytest.mark.parametrize("command", ["list", "fetch", "add", "verify"])
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


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("fetch", "videocuttler"), "Did you mean videocutler"),
        (("verify", "videocutler"), "spectrabox weights fetch videocutler"),
        (("add", "../up", "mine.pth"), "no name for weights"),
        (("add", "mine", "/no/such/file"), "There is no file or folder /no/such/file"),
    ],
)
def test_errors_are_sentences(run: Run, arguments: tuple[str, ...], text: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert text in result.output
    assert "Traceback" not in result.output
