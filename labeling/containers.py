"""Is a video file whole?

FFmpeg reads a damaged mkv, webm or gif as far as it can and then calls it the end, so a file that was cut off would
pass for a short video. `damage` walks the file's own structure, without decoding, and says what is wrong with it.
Formats without such a structure pass.
"""

from __future__ import annotations

import mmap
from pathlib import Path

CUT = "is cut off"
BROKEN = "is damaged in the middle"
BLOCK = 1 << 20  # bytes that are looked at together

_EBML, _SEGMENT, _CLUSTER = 0x1A45DFA3, 0x18538067, 0x1F43B675
_TOP_LEVEL = 1 << 28  # ids of four bytes stand for parts of the file, shorter ones for parts of parts
# In a cluster: time, previous size, position, silent tracks, block, group of blocks, encrypted block, void, checksum
_IN_CLUSTER = {0xE7, 0xAB, 0xA7, 0x5854, 0xA3, 0xA0, 0xAF, 0xEC, 0xBF}
_BESIDE_CLUSTERS = {0xEC, 0xBF}
_BOXES = {
    b"ftyp", b"moov", b"mdat", b"moof", b"free", b"skip", b"wide", b"styp", b"sidx", b"pnot", b"uuid", b"meta",
    b"udta", b"mfra", b"emsg", b"prft", b"pdin",
}  # fmt: skip


def damage(path: Path) -> str | None:
    """CUT or BROKEN if the structure of the file does not add up, else None."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            if data[:4] == _EBML.to_bytes(4):
                return _matroska(data)
            if data[:4] == b"GIF8":
                return _gif(data)
            if data[4:8] in _BOXES:
                return _mp4(data)
        except IndexError:  # a number was expected behind the end of the file
            return CUT
        return None


def _mp4(data: mmap.mmap) -> str | None:
    """Boxes of mp4 and mov: a size and a name, one after another."""
    at = 0
    while at + 8 <= len(data) and data[at + 4 : at + 8] in _BOXES:
        size = int.from_bytes(data[at : at + 4])
        head = 8
        if size == 1:
            size, head = int.from_bytes(data[at + 8 : at + 16]), 16
        if size == 0:  # up to the end of the file
            return None
        if size < head:
            return BROKEN
        at += size
    return CUT if at > len(data) else None


def _only_zeros(data: mmap.mmap, at: int) -> bool:
    return all(not any(data[begin : begin + BLOCK]) for begin in range(at, len(data), BLOCK))


def _matroska(data: mmap.mmap) -> str | None:
    """Elements of mkv and webm: an id, a size, and inside clusters the frames one by one."""
    at, in_cluster, end = 0, False, len(data)
    measured = False  # the file is as long as it says: what stands out is then wrong in itself
    while at < len(data):
        if not data[at] and _only_zeros(data, at):  # room that a writer reserved and did not use
            return None
        name, at = _number(data, at, keep_mark=True)
        size, at = _number(data, at)
        if name >= _TOP_LEVEL:
            in_cluster = name == _CLUSTER
            end = at + size if in_cluster and 0 <= size <= len(data) - at else len(data)
        elif name not in (_IN_CLUSTER if in_cluster else _BESIDE_CLUSTERS):
            return BROKEN
        if at + size > end:
            return BROKEN if measured else CUT
        if name in (_SEGMENT, _CLUSTER):  # look inside; a live recording does not know their size
            measured |= name == _SEGMENT and size >= 0
            continue
        if size < 0:
            return BROKEN
        at += size
    return None


def _number(data: mmap.mmap, at: int, keep_mark: bool = False) -> tuple[int, int]:
    """A number of 1 to 8 bytes and where it ends; -1 stands for "unknown" where the length mark is not kept."""
    length = 9 - data[at].bit_length()
    if length > 8:
        return 0, at + 1
    if at + length > len(data):
        raise IndexError
    value = int.from_bytes(data[at : at + length])
    if keep_mark:
        return value, at + length
    value &= (1 << 7 * length) - 1
    return -1 if value == (1 << 7 * length) - 1 else value, at + length


def _gif(data: mmap.mmap) -> str | None:
    """Blocks of a gif: extensions and pictures, each a chain of short pieces."""
    at = 13 + _palette(data[10])
    while at < len(data):
        kind = data[at]
        if kind == 0x3B:
            return None
        if kind == 0x21:
            at += 2
        elif kind == 0x2C:
            at += 11 + _palette(data[at + 9])
        else:
            return BROKEN
        while piece := data[at]:
            at += piece + 1
        at += 1
    return CUT if at > len(data) else None  # some writers forget the end mark


def _palette(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0
