"""The tables there are, each in a file of its own that says rows, columns and the paper's numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from training.reproduction.beyond import BEYOND
from training.reproduction.scale import ScaleName
from training.reproduction.scales import SCALES
from training.reproduction.table import Build, Table
from training.reproduction.tables import (
    aux_cem,
    data_efficiency,
    depth,
    environments,
    heads,
    matching,
    nball_spearman,
    nball_success,
    noise,
    probes,
    regularizers,
    targets,
)

TABLES: dict[str, Build] = {
    "nball-success": nball_success.table,
    "nball-spearman": nball_spearman.table,
    "environments": environments.table,
    "aux-cem": aux_cem.table,
    "targets": targets.table,
    "heads": heads.table,
    "matching": matching.table,
    "depth": depth.table,
    "noise": noise.table,
    "probes": probes.table,
    "data-efficiency": data_efficiency.table,
    "regularizers": regularizers.table,
}


class TableError(ValueError):
    """There is no such table, or it does not take what it was given; the message says what to do."""


def build(name: str, scale: ScaleName = "cpu", clips: Path | None = None) -> Table:
    """A table at a scale; `clips` is a folder of videos with true boxes, for tables that ask for one."""
    every = TABLES | BEYOND
    if name not in every:
        raise TableError(f"There is no table {name!r}. Choose one of: {', '.join(every)}.")
    table = every[name](SCALES[scale])
    if not clips:
        return table
    if not table.needs:
        raise TableError(f"{name} takes no videos: leave --videos out.")
    return every[name](replace(SCALES[scale], clips=str(clips.resolve())))
