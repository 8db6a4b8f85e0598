"""Labels of MOTChallenge.

Reads `gt/gt.txt` of every sequence below a folder, or a single text file: rows of frame, identity, left, top, width and
height, then, if there, considered or score, class, and visibility. Frames and pixels count from 1. Rows that are not to
be considered are skipped. Results of trackers, whose class is -1, are taken with their score; all are objects then.
"""

from __future__ import annotations

import configparser
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from labeling.importing.sequence import LARGEST, ImportProblem, Sequence, in_words

# As MOT16 and later number them; a file gt/labels.txt beside says otherwise.
CLASSES = (
    "pedestrian", "person on vehicle", "car", "bicycle", "motorbike", "non-motorised vehicle", "static person",
    "distractor", "occluder", "occluder on the ground", "occluder, full", "reflection", "crowd",
)  # fmt: skip
NO_CLASS = "object"
IGNORED = "Boxes marked as not to be considered, left out"
FEWEST = 6  # columns


def read(path: Path) -> Iterator[Sequence] | None:
    """The sequences at `path`, a folder or a text file; None if it is nothing of the kind."""
    if path.is_file():
        return _sequences([path]) if path.suffix.lower() == ".txt" else None
    found = sorted(path.rglob("gt/gt.txt"))
    return _sequences(found) if found else None


def _sequences(files: list[Path]) -> Iterator[Sequence]:
    for file in files:
        yield _sequence(file)


def _sequence(file: Path) -> Sequence:
    """What a file says; its first fault goes along, so that the other files are read nevertheless."""
    folder = file.parent.parent if file.parent.name == "gt" else None
    name = folder.resolve().name if folder else file.stem
    rows: list[list[float]] = []
    ignored: list[list[float]] = []
    places: list[int] = []
    info: dict[str, str] = {}
    names = list(CLASSES)
    fault, size = "", None
    try:
        if (listed := file.with_name("labels.txt")).is_file() and listed != file:
            names = [line.strip() for _, line in _lines(listed, empty=True)]
        if folder:
            info, size = _info(folder / "seqinfo.ini")
        for number, line in _lines(file):
            row = _row(line, f"{file}:{number}")
            (rows if row[6] else ignored).append(row)
            if row[6]:
                places.append(number)
    except ImportProblem as problem:
        fault = str(problem)
    table, left = (np.array(lines, np.float64).reshape(-1, 9) for lines in (rows, ignored))
    classes = table[:, 7].astype(np.int64)
    score = np.where(classes > 0, table[:, 8], table[:, 6])
    called = [info.get("source", ""), f"{name}/{info.get('imdir', 'img1')}", name, info.get("name", "")]
    return Sequence(
        name=name, where=file, called=[text for text in called if text], frame=table[:, 0].astype(np.int64) - 1,
        instance=table[:, 1].astype(np.int64), category=np.maximum(classes, 0),
        boxes=_boxes(table),
        score=np.where((score >= 0) & (score <= 1), score, 1.0), place=np.array(places, np.int64), unit=":",
        names=_names(names, classes), size=size, skipped={IGNORED: len(ignored)} if ignored else {},
        ignored=np.column_stack([left[:, 0] - 1, _boxes(left)]), fault=fault,
    )  # fmt: skip


def _boxes(table: np.ndarray) -> np.ndarray:
    """Boxes (M, 4), x1 y1 x2 y2, of rows; pixels count from 1."""
    low = table[:, 2:4] - 1
    return np.concatenate([low, low + table[:, 4:6]], axis=1)


def _lines(file: Path, empty: bool = False) -> Iterator[tuple[int, str]]:
    """Number and text of the lines; of those that are empty only if asked for."""
    try:
        with file.open(encoding="utf-8-sig") as opened:
            yield from ((number, line) for number, line in enumerate(opened, 1) if empty or line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise ImportProblem(f"{file} cannot be read as text: {error}") from error


def _row(line: str, where: str) -> list[float]:
    """The nine numbers of a line; those that may be missing are 1 (considered), -1 (no class) and 1 (visible)."""
    cells = line.split(",")
    if len(cells) < FEWEST:
        raise ImportProblem(f"{where}: {len(cells)} columns, there must be frame, id, left, top, width, height.")
    try:
        row = [float(cell) for cell in cells[:9]]
    except ValueError as error:
        raise ImportProblem(f"{where}: {in_words(error)}.") from error
    row += [1.0, -1.0, 1.0][len(row) - FEWEST :]
    if not all(abs(value) <= LARGEST for value in row) or any(value != int(value) for value in (*row[:2], row[7])):
        raise ImportProblem(f"{where}: frame, id and class must be whole numbers, and all others numbers, up to 2^53.")
    return row


def _info(path: Path) -> tuple[dict[str, str], tuple[int, int] | None]:
    """What seqinfo.ini says, with keys in small letters, and height and width if they are in it."""
    parser = configparser.ConfigParser()
    try:
        parser.read(path, encoding="utf-8")
        info = dict(parser["Sequence"]) if "Sequence" in parser else {}
        sides = [int(info[key]) for key in ("imheight", "imwidth") if key in info]
    except (configparser.Error, ValueError, OSError) as error:
        raise ImportProblem(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    return info, (sides[0], sides[1]) if len(sides) == 2 else None


def _names(listed: list[str], classes: np.ndarray) -> dict[int, str]:
    """The names of the classes that are there, as listed from 1 on."""
    named = {number: name for number, name in enumerate(listed, 1) if name}
    return {0: NO_CLASS} | {
        number: named.get(number, f"class-{number}") for number in set(classes.tolist()) if number > 0
    }
