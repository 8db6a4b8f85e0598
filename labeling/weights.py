"""Where are the weights, and are they the right ones?

`resolve` takes a name (`videocutler`, `facebook/dinov2-small`) or a path and returns a local path with its SHA-256,
checked before use. `fetch` downloads a name into the cache folder, `add` takes a file or folder from disk, `verify`
reads everything again, `remove` deletes, `listing` says what there is. No network is touched but by `fetch`.
"""

from __future__ import annotations

import difflib
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import platformdirs

from labeling import weight_cache as cache
from labeling.checkpoints import KNOWN, Checkpoint, WeightsError, on_the_hub, weight_files
from labeling.downloads import Progress, access, download, refuse_web_page, sha256_of
from labeling.weight_cache import Weights, folder_name

__all__ = [
    "KNOWN", "Finding", "Listed", "Weights", "WeightsError",
    "add", "cache_folder", "fetch", "listing", "remove", "resolve", "verify",
]  # fmt: skip

FILE_ENDINGS = (".pth", ".pt", ".bin", ".safetensors")


@dataclass(frozen=True)
class Listed:
    """A line of the table of weights: known, or on this machine, or both."""

    checkpoint: Checkpoint
    path: Path | None  # where it is on this machine


@dataclass(frozen=True)
class Finding:
    """What `verify` found; an empty problem means that all is well."""

    name: str
    sha256: str
    problem: str


def cache_folder(folder: Path | None = None) -> Path:
    """The folder that holds weights: the one given, or `spectrabox/weights` in the user's cache."""
    return (folder or platformdirs.user_cache_path("spectrabox", appauthor=False) / "weights").expanduser().absolute()


def resolve(name_or_path: str | Path, folder: Path | None = None) -> Weights:
    """Find weights by name or path and check them; what is missing or damaged is an error that says what to do.

    Files that have the size and time of the last check are not read again; `verify` reads them all.
    """
    home = cache_folder(folder)
    if _is_path(name_or_path, home):
        return _at_path(Path(name_or_path).expanduser().absolute(), home)
    name = str(name_or_path)
    record = cache.read_record(home, name)
    if record is None:
        raise WeightsError(_missing(name, folder))
    return cache.check(home, record, every_byte=False)


def fetch(
    name: str, folder: Path | None = None, progress: Progress | None = None, endpoint: str | None = None
) -> Weights:
    """Download weights, unless they are here and whole; a broken download is gone on with."""
    home, tell = cache_folder(folder), progress or (lambda what, done, total: None)
    scratch = cache.scratch_of(home, name)
    if name not in KNOWN and "/" not in name:
        raise WeightsError(_missing(name, folder))
    checkpoint = KNOWN.get(name) or on_the_hub(name)
    with cache.locked(home, name, tell):
        record = None
        with suppress(WeightsError):
            record = cache.read_record(home, name)
            if record is not None:
                return cache.check(home, record, every_byte=True)
        source = checkpoint.url or checkpoint.home
        if record is not None and record.source == source and checkpoint.file in record.files and not checkpoint.sha256:
            # Nobody published a hash: what was recorded at first use holds from then on.
            checkpoint = replace(checkpoint, sha256=record.files[checkpoint.file].sha256)
        arrived = download(checkpoint, scratch, tell, endpoint)
        return cache.publish(home, arrived.files, _record(checkpoint, source, arrived.version, bool(checkpoint.file)))


def add(name: str, path: Path, folder: Path | None = None, link: bool = False) -> Weights:
    """Take weights from disk into the cache, as a copy or as links, in place of what the name had before."""
    home, path = cache_folder(folder), path.expanduser().absolute()
    place, scratch = home / folder_name(name), cache.scratch_of(home, name)
    checkpoint = KNOWN.get(name) or _by_hand(name)
    if not path.exists():
        raise WeightsError(f"There is no file or folder {path}, so it cannot be added as {name}.")
    if name in KNOWN and path.is_dir() == bool(checkpoint.file):
        kind = f"one file, {checkpoint.file}" if checkpoint.file else "a folder with config.json and model.safetensors"
        raise WeightsError(f"{name} is {kind}; {path} is a {'folder' if path.is_dir() else 'file'}.")
    if path.resolve().is_relative_to(place.resolve()):
        raise WeightsError(f"{path} is the very copy that {name} has.")
    sources = _sources(path, checkpoint.file or path.name)
    if checkpoint.sha256 and (got := sha256_of(path)) != checkpoint.sha256:
        raise WeightsError(f"{path} is not {name}: expected the hash {checkpoint.sha256}, got {got}.")
    with cache.locked(home, name, lambda what, done, total: None):
        files = scratch / "added" / "files"
        shutil.rmtree(files.parent, ignore_errors=True)
        files.mkdir(parents=True)
        for source, target in sources.items():
            if link:
                (files / target).symlink_to(source.resolve())
            else:
                shutil.copyfile(source, files / target)
        return cache.publish(home, files, _record(checkpoint, str(path), "", path.is_file()))


def remove(name: str, folder: Path | None = None) -> int:
    """Delete weights from the cache, and what is left of a broken download; returns the bytes that this frees."""
    home = cache_folder(folder)
    folder_name(name)  # one that leads out of the cache is refused here
    with cache.locked(home, name, lambda what, done, total: None):
        freed = cache.remove(home, name)
    if freed is None:
        raise WeightsError(
            f"There are no weights called {name} in {home}. `spectrabox weights list` says what is here."
        )
    return freed


def verify(name: str | None = None, folder: Path | None = None) -> list[Finding]:
    """Read every byte of the weights of this name, or of all in the cache, and compare with what was recorded."""
    home, findings = cache_folder(folder), []
    if name is not None and not (home / folder_name(name) / "record.json").exists():
        raise WeightsError(_missing(name, folder))
    for one in cache.names_in(home) if name is None else [name]:
        try:
            record = cache.read_record(home, one)
            if record is None:
                raise WeightsError(f"{home / folder_name(one)} holds other weights. Fetch or add {one} again.")
            findings.append(Finding(one, cache.check(home, record, every_byte=True).sha256, ""))
        except WeightsError as error:
            findings.append(Finding(one, "", str(error)))
    return findings


def listing(folder: Path | None = None) -> list[Listed]:
    """All known weights, and after them the others that are on this machine."""
    home = cache_folder(folder)
    here = cache.names_in(home)
    others = [on_the_hub(name) if "/" in name else _by_hand(name) for name in here if name not in KNOWN]
    return [
        Listed(one, home / folder_name(one.name) if one.name in here else None) for one in [*KNOWN.values(), *others]
    ]


def _is_path(given: str | Path, home: Path) -> bool:
    """Whether this means a place on disk; a known name does not, even where a folder of that name exists."""
    text = str(given)
    if isinstance(given, Path) or text.startswith((".", "/", "~")) or "\\" in text or text.count("/") > 1:
        return True
    if text in KNOWN or (cache.NAME.fullmatch(text) and (home / text.replace("/", "--") / "record.json").exists()):
        return False
    return text.endswith(FILE_ENDINGS) or Path(text).exists()


def _at_path(path: Path, home: Path) -> Weights:
    """Weights of the user's own, used where they are."""
    if not path.exists():
        raise WeightsError(f"There is no file or folder {path}. `spectrabox weights list` shows what has a name.")
    hashes = {name: cache.remembered_sha256(home, source) for source, name in _sources(path, path.name).items()}
    return Weights(path, cache.combined_sha256(hashes, path.is_file()), path.name)


def _sources(path: Path, file: str) -> dict[Path, str]:
    """The files that make up the weights at a path, with the names that they go by."""
    if path.is_file():
        refuse_web_page(path, str(path))
        return {path: file}
    return {path / name: name for name in weight_files((entry.name for entry in path.iterdir()), str(path))}


def _record(checkpoint: Checkpoint, source: str, revision: str, one_file: bool) -> cache.Record:
    return cache.Record(
        name=checkpoint.name, source=source, licence=checkpoint.licence, revision=revision, one_file=one_file, files={}
    )


def _by_hand(name: str) -> Checkpoint:
    return Checkpoint(name, "added by hand", "unknown")


def _missing(name: str, folder: Path | None) -> str:
    """What to tell a person who lacks these weights: their licence, and the commands that bring them."""
    where = f" --folder {folder}" if folder is not None else ""
    get, bring = f"`spectrabox weights fetch {name}{where}`", f"`spectrabox weights add {name} PATH{where}`"
    if name not in KNOWN and "/" not in name:
        near = difflib.get_close_matches(name, KNOWN, n=3, cutoff=0.4)
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        return f"There are no weights called {name}.{meant} `spectrabox weights list` names all; {bring} adds your own."
    checkpoint = KNOWN.get(name) or on_the_hub(name)
    first = f" To fetch them, first {access(checkpoint)}." if checkpoint.gated else ""
    return (
        f"The weights {name} are not on this machine (looked in {cache_folder(folder)}). "
        f"Licence: {checkpoint.licence}. Download them ({checkpoint.size}) with {get}, "
        f"or bring a copy with {bring}.{first}"
    )
