"""What happens to files: broken disks, half copies, wrong tools, and people who mean harm.

`mutate` breaks one file or one folder in place, in a way that its random numbers choose, and says what it did. Bytes
are flipped, cut, doubled and swapped; JSON keeps its form and gets values that nobody expects; names and links lead
elsewhere. The same random numbers break the same input in the same way.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ELSEWHERE = "@elsewhere@"  # stands for a folder that nobody may touch, as an absolute path

_DEEP: list[Any] = []
for _ in range(500):
    _DEEP = [_DEEP]

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 7, 0.5, 1e308, -1e308, float("nan"), float("inf"), 2**31, 2**63, -(2**63), 10**30,
    10**400, 65536, "", "0", "x" * 70_000, "..", "../..", "../../escaped", "a/b", "/", f"{ELSEWHERE}/new", ELSEWHERE,
    "zarr.json", ".", "\0", "\n", "\ud800", "<script>alert(1)</script>", "[red]bold[/]", "{{ 7 * 7 }}", "%s%n", "~",
    "s3://bucket/x", "https://user:word@host/x", [], {}, [[]], [None], [0, 0], [-1, -1], [1e9, 1e9], [2**40, 4],
    ["a"] * 50, {"a": {"b": []}}, {"__class__": "os.system"}, "!!python/object/apply:os.system [true]", _DEEP,
)  # fmt: skip


def mutate(rng: np.random.Generator, target: Path, elsewhere: Path) -> str:
    """Break `target`, a file or a folder, once to three times; `elsewhere` is a folder with files beside it."""
    done = []
    for _ in range(rng.integers(1, 4)):
        if not target.is_dir() or target.is_symlink():
            if target.is_file() and not target.is_symlink():
                done.append(_break_file(rng, target, elsewhere))
            continue
        files = sorted(path for path in target.rglob("*") if path.is_file() and not path.is_symlink())
        if not files:
            break
        # Metadata is a small part of the bytes, and the part that leads readers.
        notes = [path for path in files if path.suffix == ".json"]
        chosen = notes if notes and rng.random() < 0.5 else files
        file = chosen[rng.integers(len(chosen))]
        if rng.random() < 0.25:
            done.append(_move_about(rng, target, file, files, elsewhere))
        else:
            done.append(_break_file(rng, file, elsewhere))
    return "; ".join(done)


def _break_file(rng: np.random.Generator, file: Path, elsewhere: Path) -> str:
    data = file.read_bytes()
    if file.suffix == ".json" and rng.random() < 0.8:
        try:
            changed, what = hostile_json(rng, json.loads(data))
        except ValueError:  # broken before
            pass
        else:
            text = json.dumps(changed).replace(ELSEWHERE, str(elsewhere))
            file.write_bytes(text.encode())
            return f"{file.name}: {what}"
    way = WAYS[rng.integers(len(WAYS))]
    file.write_bytes(way(rng, data))
    return f"{file.name}: {way.__name__.strip('_')}"


def hostile_json(rng: np.random.Generator, tree: Any) -> tuple[Any, str]:
    """The tree with one node replaced, removed, added or renamed, and what was done."""
    spots = list(_spots(tree))
    if not spots:
        return HOSTILE[rng.integers(len(HOSTILE))], "everything replaced"
    holder, key = spots[rng.integers(len(spots))]
    value = HOSTILE[rng.integers(len(HOSTILE))]
    way = rng.random()
    if way < 0.75:
        holder[key] = value
        return tree, f"{key} = {str(value)[:40]!r}"
    if way < 0.85:
        del holder[key]
        return tree, f"{key} removed"
    if isinstance(holder, dict):
        name = str(HOSTILE[rng.integers(len(HOSTILE))])[:200]
        holder[name] = holder.pop(key) if rng.random() < 0.5 else value
        return tree, f"{key} renamed or joined by {name[:40]!r}"
    holder.append(value)
    return tree, f"{str(value)[:40]!r} appended"


def _spots(tree: Any) -> Any:
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in pairs:
        yield tree, key
        yield from _spots(value)


def _move_about(rng: np.random.Generator, top: Path, file: Path, files: list[Path], elsewhere: Path) -> str:
    """Something that concerns whole files: gone, swapped, a folder instead, a link that leads out."""
    way = rng.integers(6)
    other = files[rng.integers(len(files))]
    if way == 0:
        file.unlink()
        return f"{file.name} removed"
    if way == 1:
        first, second = file.read_bytes(), other.read_bytes()
        file.write_bytes(second)
        other.write_bytes(first)
        return f"{file.name} and {other.name} swapped"
    if way == 2:
        file.unlink()
        file.mkdir()
        return f"{file.name} is a folder"
    if way == 3:
        file.unlink()
        file.symlink_to(elsewhere / "kept.txt")
        return f"{file.name} is a link to a file outside"
    if way == 4 and file.parent != top:
        shutil.rmtree(file.parent)
        file.parent.symlink_to(elsewhere, target_is_directory=True)
        return f"{file.parent.name} is a link to a folder outside"
    if way == 5 and file.parent != top:
        shutil.copytree(file.parent, file.parent.with_name("..double"), symlinks=True, dirs_exist_ok=True)
        return f"{file.parent.name} doubled"
    file.unlink()
    file.symlink_to(file.name)
    return f"{file.name} is a link to itself"


def _flipped(rng: np.random.Generator, data: bytes) -> bytes:
    broken = bytearray(data)
    for place in rng.integers(0, max(1, len(data)), rng.integers(1, 9)) if data else ():
        broken[place] ^= 1 << int(rng.integers(8))
    return bytes(broken)


def _overwritten(rng: np.random.Generator, data: bytes) -> bytes:
    begin, end = _stretch(rng, data)
    return data[:begin] + rng.integers(0, 256, end - begin, dtype=np.uint8).tobytes() + data[end:]


def _zeroed(rng: np.random.Generator, data: bytes) -> bytes:
    begin, end = _stretch(rng, data)
    return data[:begin] + bytes(end - begin) + data[end:]


def _cut(rng: np.random.Generator, data: bytes) -> bytes:
    return data[: rng.integers(0, max(1, len(data)))]


def _emptied(rng: np.random.Generator, data: bytes) -> bytes:
    return b""


def _doubled(rng: np.random.Generator, data: bytes) -> bytes:
    begin, end = _stretch(rng, data)
    return data[:end] + data[begin:end] * int(rng.integers(1, 4)) + data[end:]


def _dropped(rng: np.random.Generator, data: bytes) -> bytes:
    begin, end = _stretch(rng, data)
    return data[:begin] + data[end:]


def _swapped(rng: np.random.Generator, data: bytes) -> bytes:
    first, second, third = sorted(int(n) for n in rng.integers(0, len(data) + 1, 3))
    return data[:first] + data[second:third] + data[first:second] + data[third:]


def _extreme_numbers(rng: np.random.Generator, data: bytes) -> bytes:
    """Sizes and counts that are nothing, negative, or as large as can be, mostly in the head of the file."""
    broken = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        width = int(rng.choice([1, 2, 4, 8]))
        room = len(data) - width
        if room < 0:
            break
        at = int(rng.integers(0, min(room, 256) + 1 if rng.random() < 0.7 else room + 1))
        kinds = (b"\0" * width, b"\xff" * width, b"\x7f" + b"\xff" * (width - 1), b"\0" * (width - 1) + b"\x7f")
        broken[at : at + width] = kinds[rng.integers(len(kinds))]
    return bytes(broken)


def _checked_again(rng: np.random.Generator, data: bytes) -> bytes:
    """Extreme numbers in a chunk of a png whose checksum fits again; elsewhere just those."""
    if not data.startswith(b"\x89PNG"):
        return _extreme_numbers(rng, data)
    at, starts = 8, []
    while at + 12 <= len(data):
        starts.append(at)
        at += 12 + int.from_bytes(data[at : at + 4])
    begin = starts[rng.integers(len(starts))]
    size = int.from_bytes(data[begin : begin + 4])
    body = data[begin + 4 : begin + 8] + _extreme_numbers(rng, data[begin + 8 : begin + 8 + size])
    return data[: begin + 4] + body + zlib.crc32(body).to_bytes(4) + data[begin + 12 + size :]


def _stretch(rng: np.random.Generator, data: bytes) -> tuple[int, int]:
    longest = int(2 ** rng.uniform(0, np.log2(len(data) + 2)))
    begin = int(rng.integers(0, len(data) + 1))
    return begin, min(len(data), begin + longest)


WAYS: tuple[Callable[[np.random.Generator, bytes], bytes], ...] = (
    _flipped, _flipped, _overwritten, _zeroed, _cut, _emptied, _doubled, _dropped, _swapped, _extreme_numbers,
    _extreme_numbers, _checked_again,
)  # fmt: skip
