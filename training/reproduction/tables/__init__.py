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


class UnknownTable(ValueError):
    """There is no such table; the message names those there are."""


def build(name: str, scale: ScaleName = "cpu", clips: Path | None = None) -> Table:
    """A table at a scale; `clips` is a folder of videos with true boxes, for tables that ask for one."""
    every = TABLES | BEYOND
    if name not in every:
        raise UnknownTable(f"There is no table {name!r}. Choose one of: {', '.join(every)}.")
    chosen = replace(SCALES[scale], clips=str(clips.resolve())) if clips else SCALES[scale]
    return every[name](chosen)
