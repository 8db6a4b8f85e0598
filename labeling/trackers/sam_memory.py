"""What of a SAM session does a later picture still read?

A session keeps its outputs by object and picture: of pictures on which the object was prompted, and of those on which
it was followed. The functions here drop what is read no more; outputs stay the same, bit for bit. Only `cap_prompts` is
a choice of ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import cv2
import numpy as np

Outputs: TypeAlias = dict[int, dict[str, Any]]  # by picture, then by name


@dataclass(frozen=True)
class Reads:
    """What a network reads of the past."""

    pictures: int  # whose memory is read, the present one among them
    pointers: int  # pictures whose object pointer is read, the present one among them
    memory: tuple[str, ...]  # names of the outputs that are a picture's memory
    spent: tuple[str, ...]  # names of those that no later picture reads


def prune_followed(outputs: Outputs, index: int, reads: Reads) -> None:
    """Drop what no picture after `index` reads of those on which an object was followed."""
    for past in [past for past in outputs if past <= index - (reads.pointers - 1)]:
        del outputs[past]
    for past, entry in outputs.items():
        # Only what is older than the memory's reach may lose it: a nearer entry without it is an error.
        for name in (*reads.spent, *(reads.memory if past <= index - (reads.pictures - 1) else ())):
            entry.pop(name, None)


def prune_prompted(outputs: Outputs, index: int, reads: Reads) -> None:
    """Drop the same of a picture on which the object was prompted: its memory is read for ever."""
    for name in reads.spent:
        outputs.get(index, {}).pop(name, None)


def cap_prompts(outputs: Outputs, most: int) -> None:
    """Forget an object's prompts but the first and the latest: every one is read on every later picture."""
    for past in sorted(outputs)[1 : len(outputs) - most + 1]:
        del outputs[past]


def inherited(outputs: Outputs, earlier: Outputs, pictures: int) -> Outputs:
    """An object's prompted pictures with those of an earlier session of so many `pictures` before them."""
    return {**{index - pictures: entry for index, entry in earlier.items()}, **outputs}


def stretched(coverage: np.ndarray, size: int) -> np.ndarray:
    """A mask on a network's square, (size, size) float32 of zeros and ones; a thin object keeps its strongest part."""
    shrinks = max(coverage.shape) > size
    square = cv2.resize(coverage, (size, size), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)
    return (square >= min(128, max(1, int(square.max())))).astype(np.float32)
