"""How is an evaluation shown? As JSON, a Markdown table, pictures, and one HTML page that holds them all."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from labeling.files import write_whole
from training.evaluation.evaluate import Evaluation, Material
from training.evaluation.figures import Picture, draw
from training.evaluation.success import Rate
from training.markdown import as_it_is
from training.pages import render

HEADINGS = ("", "Spearman", "line: error", "r", "R²", "net: error", "r", "R²")
PLANS = ("actions to goal", "frames seen", "actions allowed", "plans arrive", "random actions", "starts", "left out")
TEMPLATE = Path(__file__).with_name("page.html")
WILD = 99
KNOWN = "The model was trained on them; probes were fitted on others."
ANOTHER = "The model was trained on another dataset: it is not known which of these episodes it was trained on."


def write(found: Evaluation, material: Material, out: Path) -> Path:
    """Write everything into a folder; the path of the page."""
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / "evaluation.json", json.dumps(found.as_data(), indent=1))
    write_whole(out / "evaluation.md", markdown(found))
    return write_whole(out / "index.html", html(found, draw(found, material, out)))


def html(found: Evaluation, pictures: list[Picture]) -> str:
    """The page, with its pictures inside."""
    shown = [
        {"title": one.title, "caption": one.caption, "light": _inside(one.light), "dark": _inside(one.dark)}
        for one in pictures
    ]
    known, plans = (HEADINGS, rows(found)), (PLANS, tried(found))
    return render(
        TEMPLATE, found=found, judged=judged(found), known=known, plans=plans, ahead=ahead(found), pictures=shown
    )


def judged(found: Evaluation) -> str:
    """What the figures are about, in a sentence."""
    held_out = "held-out " if found.same_dataset else ""
    whose = {"validation": held_out, "train": "training "}[found.split]
    episodes = f"{found.episodes} {whose}episode{'s' if found.episodes != 1 else ''}"
    text = f"Judged at step {found.step} on {found.frames} frames of {episodes} of the dataset {found.dataset}."
    if not found.same_dataset:
        return f"{text} {ANOTHER}"
    return text if found.split == "validation" else f"{text} {KNOWN}"


def _inside(path: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"


def rows(found: Evaluation) -> list[tuple[str, ...]]:
    """The table of what latents know, a row for each quantity."""
    return [
        (name, f"{known.spearman:.3f}", *(
            _short(value)
            for reading in (known.linear, known.network)
            for value in (reading.error, reading.pearson, reading.r2)
        ))
        for name, known in found.knowledge.items()
    ]  # fmt: skip


def _short(value: float) -> str:
    """Three decimals; a probe may be wrong by any factor, and then its digits say nothing."""
    if abs(value) >= WILD:
        return f"> {WILD}" if value > 0 else f"< -{WILD}"
    return f"{value:.3f}" if abs(value) < 1 else f"{value:.1f}"


def tried(found: Evaluation) -> list[tuple[str, ...]]:
    """The table of plans, a row for each way in which they were tried out."""
    return [
        (str(one.horizon), str(one.context), str(one.budget), _percent(one.plans), _percent(one.random),
         str(one.plans.trials), str(one.solved))
        for one in found.success
    ]  # fmt: skip


def _percent(rate: Rate) -> str:
    return f"{100 * rate.rate:.0f} % ({100 * rate.low:.0f} to {100 * rate.high:.0f})"


def ahead(found: Evaluation) -> str:
    """Errors of imagined latents in a line; empty if there are none."""
    return ", ".join(f"{error:.2f}" if error < WILD else f"> {WILD}" for error in found.prediction)


def markdown(found: Evaluation) -> str:
    """The figures as text."""
    lines = [*_table(HEADINGS, rows(found)), ""] if found.knowledge else []
    errors = f"Error of latents imagined 1, 2, ... steps ahead, over that of standing still: {ahead(found)}."
    imagined = [errors] if found.prediction else []
    plans = ["", *_table(PLANS, tried(found))] if found.success else []
    return "\n".join([
        f"# {as_it_is(found.run)}", "", as_it_is(found.verdict), "",
        as_it_is(judged(found)), "", *lines, *imagined, *plans, "", *map(as_it_is, found.notes), "",
    ])  # fmt: skip


def _table(headings: tuple[str, ...], cells: list[tuple[str, ...]]) -> list[str]:
    table = (headings, ("---",) * len(headings), *cells)
    return [f"| {' | '.join(as_it_is(cell) for cell in row)} |" for row in table]
