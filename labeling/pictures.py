"""Which pictures of a folder make a video, and what is in one?

A folder of numbered jpg or png files is a video: `numbered_pictures` puts them in order and refuses a sequence with
holes, `read_picture` decodes one.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np

from labeling.problems import VideoError, plainly, shown

PICTURE_SUFFIXES = {".jpg", ".jpeg", ".png"}
_NUMBERED = re.compile(r"(.*?)([0-9]+)", re.DOTALL)
_PNG = b"\x89PNG\r\n\x1a\n"


def is_numbered(name: str) -> bool:
    """Whether a file name is that of a picture in a sequence; names with a leading dot are other programs' notes."""
    path = Path(name)
    return (
        path.suffix.lower() in PICTURE_SUFFIXES
        and not name.startswith(".")
        and _NUMBERED.fullmatch(path.stem) is not None
    )


def numbered_pictures(folder: Path) -> list[Path]:
    """The pictures of a folder in the order of their numbers; VideoError if they are not one whole sequence."""
    with plainly(folder):
        paths = sorted(path for path in folder.iterdir() if is_numbered(path.name))
    numbered: dict[int, Path] = {}
    sequences: dict[str, Path] = {}
    for path in paths:
        match = _NUMBERED.fullmatch(path.stem)
        assert match is not None
        number = int(match.group(2))
        sequences.setdefault(match.group(1), path)
        if number in numbered or len(sequences) > 1:
            other = numbered.get(number, next(iter(sequences.values())))
            raise VideoError(
                f"{shown(folder)} holds more than one sequence of pictures: {shown(other.name)} and "
                f"{shown(path.name)} do not belong to the same one. Give each sequence a folder of its own."
            )
        numbered[number] = path
    order = sorted(numbered)
    _refuse_gaps(folder, order, numbered)
    return [numbered[number] for number in order]


def read_picture(path: Path) -> np.ndarray:
    """The picture at `path` as (H, W, 3) uint8 RGB, turned upright; VideoError if it is not whole."""
    with plainly(path):
        content = path.read_bytes()
    image = None
    if _is_whole(content):
        try:
            image = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR_RGB)
        except cv2.error:  # larger than OpenCV is willing to decode
            image = None
    if image is None:
        raise VideoError(f"{shown(path)} is not a readable picture: it is damaged or cut off. Replace or remove it.")
    return np.asarray(image)


def _refuse_gaps(folder: Path, order: list[int], numbered: dict[int, Path]) -> None:
    """VideoError if numbers are missing; every fifth frame of a video is a sequence as well."""
    steps = [after - before for before, after in pairwise(order)]
    if not steps:
        return
    usual = min(_most_common(steps))
    for before, step in zip(order[:-1], steps, strict=True):
        if step != usual:
            missing = sum(max(0, step // usual - 1) for step in steps)
            raise VideoError(
                f"{shown(folder)} has a gap after {shown(numbered[before].name)}: about {missing} pictures are "
                "missing from the numbering. Restore them, or split the folder there."
            )


def _most_common(values: Iterable[int]) -> list[int]:
    counts = Counter(values)
    most = max(counts.values())
    return [value for value, count in counts.items() if count == most]


def _is_whole(content: bytes) -> bool:
    """Whether a picture has its end; the decoders would print about a broken one, or fill up the rest with grey."""
    if content.startswith(_PNG):
        at = len(_PNG)
        while at + 12 <= len(content):
            size = int.from_bytes(content[at : at + 4])
            body = content[at + 4 : at + 8 + size]
            if zlib.crc32(body) != int.from_bytes(content[at + 8 + size : at + 12 + size]):
                return False
            if body[:4] == b"IEND":
                return True
            at += 12 + size
        return False
    if content.startswith(b"\xff\xd8"):  # pixels cannot contain markers: the end must come after the last scan
        return content.rfind(b"\xff\xd9") > content.rfind(b"\xff\xda")
    return bool(content)
