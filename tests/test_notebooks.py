"""Notebooks of the documentation, really executed in a kernel of their own, at a small size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
SMALL = {"label_and_look": "frames = 30", "train_and_plan": "episodes, steps = 40, 10"}


def read(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def executed(name: str, folder: Path) -> list[Any]:
    """The code cells of a notebook after they were run in `folder`, with fewer frames and steps."""
    notebook = read(name)
    (parameters,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    parameters.source = SMALL[name]
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def printed(cells: list[Any]) -> str:
    return "".join(
        output.get("text", "") for cell in cells for output in cell.outputs if output.output_type == "stream"
    )


def pictures(cells: list[Any]) -> int:
    return sum("image/png" in output.get("data", {}) for cell in cells for output in cell.outputs)


def test_every_notebook_is_here_and_is_stored_without_results() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(SMALL)
    for name in SMALL:
        notebook = read(name)
        nbformat.validate(notebook)
        for cell in notebook.cells:
            assert not cell.get("outputs")
            assert cell.get("execution_count") is None


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels inherit it: tests run side by side."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.mark.long
def test_label_and_look(tmp_path: Path) -> None:
    cells = executed("label_and_look", tmp_path)
    said = printed(cells)
    assert "1_white/nball-0000.mp4: 30 frames, 2 tracks" in said
    assert "3_white/nball-0000.mp4: 30 frames, 4 tracks" in said
    off = [float(line.split(" is ")[1].split()[0]) for line in said.splitlines() if "pixels off" in line]
    assert len(off) == 6
    assert max(off) < 1
    assert pictures(cells) == 3
    assert (tmp_path / "label_and_look" / "report" / "index.html").is_file()


@pytest.mark.long
def test_train_and_plan(tmp_path: Path) -> None:
    cells = executed("train_and_plan", tmp_path)
    said = printed(cells)
    assert "step 10: " in said
    assert "reached | red ball at" in said
    assert pictures(cells) == 4
    assert "Warning" not in said
