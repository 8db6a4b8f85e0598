"""What came out of a run, on one page?

Reads the last checkpoint and the metrics of a run and writes `report.md`: the verdict, the last values and of which
episodes they are, what it was trained on, and the curves.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labeling.files import write_whole
from training import checkpoint, curves, metrics
from training.markdown import as_it_is

FILE = "report.md"
WORDS = {
    "total": "loss", "prediction": "error of the next latent", "regularizer": "regularizer",
    "encoded": "error of boxes from encoded latents", "predicted": "error of boxes from predicted latents",
    "sigreg": "SIGReg statistic (about 1 for a Gaussian)", "rank": "rank of the latents",
}  # fmt: skip


def last_values(row: dict[str, Any]) -> list[tuple[str, float | None]]:
    """The numbers of a look at the validation split, each with its name in words."""
    values: list[tuple[str, float | None]] = [(words, row[key]) for key, words in WORDS.items()]
    values += [(f"R² of the position, {name}", value) for name, value in row["probe"].items()]
    return values + [(f"Spearman of distances, {name}", value) for name, value in row["spearman"].items()]


def judged_on(row: Mapping[str, Any]) -> str:
    """Which episodes the numbers of a look are of."""
    held_out = row.get("judged_on", "validation") == "validation"  # earlier runs did not say
    return "on the validation split" if held_out else "on training episodes: none are held out"


def markdown(run: Path) -> str:
    """The page as text."""
    facts = checkpoint.read(checkpoint.find(run, "last"))
    row = facts.validation or next((row for row in reversed(metrics.read(run)) if row["split"] == "validation"), {})
    lines = [
        f"# {as_it_is(run.name)}", "", as_it_is(row.get("verdict", "not validated yet")), "",
        f"{facts.step} of {facts.steps} steps in {facts.seconds / 60:.1f} minutes; best at step {facts.best_step}.", "",
    ]  # fmt: skip
    if row:
        lines += [f"| at step {row['step']}, {judged_on(row)} | |", "|---|---|"]
        lines += [
            f"| {as_it_is(name)} | {'' if value is None else f'{value:.4g}'} |" for name, value in last_values(row)
        ]
        lines.append("")
    kinds = ", ".join(facts.data.categories.values()) or "none"
    lines += [
        f"Dataset: {as_it_is(facts.data.name)} (fingerprint {facts.data.fingerprint[:12]}), "
        f"kinds of objects: {as_it_is(kinds)}. "
        f"Preset: {facts.config.preset}, seed {facts.config.seed}. Spectrabox {facts.version}.",
        "", f"![curves]({curves.FILE})", "",
    ]  # fmt: skip
    return "\n".join(lines)


def write_report(run: Path) -> Path:
    """Write the page beside the curves; its path."""
    return write_whole(run / FILE, markdown(run))
