"""True boxes as JSON beside clips.

Reads what `spectrabox simulate --videos` writes: `NAME.json` with `video`, `width`, `height`, `frames`, `kind`, and
`objects`, each with a name, a role and a box or null for every frame. A JSON that is something else is passed over.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from labeling.importing.sequence import ImportProblem

LONGEST = 2_000_000  # frames of a clip: what is longer is no count of frames
VISIBLE = 0.1  # the share of an object that must be seen for it to have to be found

Share = Annotated[float, Field(ge=0, le=1)]
Kind = Literal["all", "all-moving", "single-foreground", "none"]


class Thing(BaseModel):
    """One object of a clip."""

    name: str = "object"
    role: Literal["main", "part", "static"] = "main"
    boxes: list[tuple[float, float, float, float] | None]
    visibility: list[Share] | None = None


class Clip(BaseModel):
    """The truth of one clip, as it stands in the file."""

    video: str
    width: int = Field(gt=0)
    height: int = Field(gt=0)
    frames: int = Field(gt=0, le=LONGEST)
    kind: Kind = "all"
    family: str = ""
    objects: list[Thing]

    @property
    def listed(self) -> Literal["all", "moving", "foreground"]:
        """What of the clip is listed."""
        return "moving" if self.kind == "all-moving" else "foreground" if self.kind == "single-foreground" else "all"


def files_in(path: Path) -> list[Path]:
    """The files of this kind at `path`, a folder or one of them, with those that no JSON can be read from.

    None at all if there is no file of this kind.
    """
    known = {file: _is_one(file) for file in ([path] if path.is_file() else _files_below(path))}
    return [file for file, kind in known.items() if kind is not False] if any(known.values()) else []


def read(file: Path) -> Clip:
    """What a file says; ImportProblem if that makes no sense."""
    try:
        clip = Clip.model_validate(_load(file))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ImportProblem(f"{file} at {where}: {first['msg']}.") from error
    if clip.kind == "single-foreground" and [thing.role for thing in clip.objects] != ["main"]:
        raise ImportProblem(f"{file}: a clip of kind single-foreground has one object, and its role is main.")
    for number, thing in enumerate(clip.objects):
        for name, rows in (("boxes", thing.boxes), ("visibility", thing.visibility)):
            if rows is not None and len(rows) != clip.frames:
                raise ImportProblem(f"{file} at objects.{number}.{name}: {len(rows)} for {clip.frames} frames.")
    return clip


def boxes_of(thing: Thing, clip: Clip) -> np.ndarray:
    """Its boxes (T, 4) within the frame, NaN where it is out of view."""
    boxes = np.array([row or [np.nan] * 4 for row in thing.boxes], np.float64)
    return within(boxes, (clip.height, clip.width))


def within(boxes: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Boxes (..., 4) cut where the picture, of that height and width, ends; NaN where nothing is left."""
    inside = boxes.clip(0, [size[1], size[0]] * 2)
    inside[~(inside[..., 2:] > inside[..., :2]).all(axis=-1)] = np.nan
    return inside


def hidden(thing: Thing, clip: Clip) -> np.ndarray:
    """Where hardly anything of it can be seen, (T,) bool."""
    return np.array(thing.visibility if thing.visibility is not None else [1.0] * clip.frames) < VISIBLE


def kind(name: str) -> str:
    """What an object is, from its name: `ball 1` and `ball-2` are balls."""
    return " ".join(re.sub(r"[\s_-]*\d+", " ", name).split())


def _files_below(folder: Path) -> Iterator[Path]:
    """JSON files, without a look into stores, which have thousands."""
    for top, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and not name.endswith(".zarr"))
        yield from (Path(top, name) for name in sorted(names) if name.endswith(".json") and not name.startswith("."))


def _is_one(file: Path) -> bool | None:
    """Whether a file is of this kind; None if it cannot be read."""
    if file.suffix != ".json":
        return False
    try:
        data = _load(file)
    except ImportProblem:
        return None
    return isinstance(data, dict) and {"video", "objects"} <= data.keys()


def _load(file: Path) -> object:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ImportProblem(f"{file} cannot be read: {error}") from error
