"""How do weights get here from the network?

Takes a Checkpoint and a scratch folder; returns a folder with its complete files, each compared with the hash that
its source publishes. A broken download is gone on with: what has arrived stays in the scratch folder, by version, so
that two versions never mix. The transfer itself is `huggingface_hub`'s `http_get`, for plain URLs too: it asks for
ranges, retries, and notices a server that ignores them. (`snapshot_download` throws partial files away and checks
sizes only, which is why the hub's files come through `http_get` as well.)
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeling.checkpoints import Checkpoint, WeightsError, weight_files

Progress = Callable[[str, int, int], None]
"""Told what is going on, how many bytes are here, and how many there will be (0: unknown)."""

MISSING_LIBRARY = (
    "Downloading needs huggingface_hub: pip install -c constraints.txt '.[foundation]', or `spectrabox weights add`."
)


@dataclass(frozen=True)
class RemoteFile:
    """One file at its source, with what the source says about it: empty where it says nothing."""

    name: str
    url: str
    size: int = 0
    sha256: str = ""
    git_id: str = ""


@dataclass(frozen=True)
class Remote:
    """All files of a checkpoint at one version."""

    files: tuple[RemoteFile, ...]
    version: str
    headers: dict[str, str]


@dataclass(frozen=True)
class Arrived:
    """A folder of complete files and the version they have."""

    files: Path
    version: str


def download(checkpoint: Checkpoint, scratch: Path, progress: Progress, endpoint: str | None = None) -> Arrived:
    """Bring all files of a checkpoint into a folder below `scratch`, going on where an earlier attempt stopped."""
    with _plain_words(checkpoint):
        remote = _on_hub(checkpoint, endpoint) if not checkpoint.url else _at_url(checkpoint)
        room = scratch / hashlib.sha256(repr((checkpoint.url, remote.version)).encode()).hexdigest()[:16]
        files = room / "files"
        files.mkdir(parents=True, exist_ok=True)
        total, done = sum(file.size for file in remote.files), 0
        for file in remote.files:
            if not (files / file.name).exists():
                part = room / f"{file.name}.part"
                ticker = _Ticker(progress, checkpoint.name, done, total)
                _transfer(file, part, remote.headers, ticker)
                _check(file, part, checkpoint)
                os.replace(part, files / file.name)
            done += (files / file.name).stat().st_size
    return Arrived(files, remote.version)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_web_page(path: Path, where: str) -> None:
    """Complain about a file that is a web page: what Drive and log-in pages send in place of weights."""
    with path.open("rb") as file:
        start = file.read(64).lstrip().lower()
    if start.startswith((b"<!doctype", b"<html")):
        raise WeightsError(f"{where} is a web page and not a checkpoint. Open it in a browser to see what it says.")


def _on_hub(checkpoint: Checkpoint, endpoint: str | None) -> Remote:
    """Ask the hub which files the repository has, at which commit, and their hashes."""
    from huggingface_hub import HfApi, hf_hub_url
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined] # public, re-exported without a note

    name = checkpoint.name
    info = HfApi(endpoint=endpoint).model_info(
        name, revision=checkpoint.revision or "main", files_metadata=True, timeout=30
    )
    siblings = {sibling.rfilename: sibling for sibling in info.siblings or []}
    files = []
    for file in weight_files(siblings, f"The repository {name} of the hub"):
        found, url = siblings[file], hf_hub_url(name, file, revision=info.sha, endpoint=endpoint)
        if found.lfs:  # large files bear their own hash, small ones that of git
            files.append(RemoteFile(file, url, found.size or 0, sha256=found.lfs.sha256))
        else:
            files.append(RemoteFile(file, url, found.size or 0, git_id=found.blob_id or ""))
    return Remote(tuple(files), info.sha or "", build_hf_headers() | {"Accept-Encoding": "identity"})


def _at_url(checkpoint: Checkpoint) -> Remote:
    """Ask a plain server for the file's size and version tag; not all servers answer that."""
    from huggingface_hub import get_hf_file_metadata
    from huggingface_hub.errors import HfHubHTTPError

    size, version = 0, ""
    try:
        found = get_hf_file_metadata(checkpoint.url, token=False)
        size, version = found.size or 0, f"{found.etag or ''} {found.size or ''}".strip()
    except HfHubHTTPError as error:
        if error.response.status_code in (404, 410):
            raise
    file = RemoteFile(checkpoint.file, checkpoint.url, size, checkpoint.sha256)
    return Remote((file,), version, {"Accept-Encoding": "identity"})


def _transfer(file: RemoteFile, part: Path, headers: dict[str, str], ticker: _Ticker) -> None:
    """Fetch what is still missing of a file."""
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import logging as hub_logging

    loudness = hub_logging.get_verbosity()
    hub_logging.set_verbosity(logging.ERROR)  # each retry would write a line through the progress bar
    part.touch()
    try:
        with part.open("r+b") as out:
            here = out.seek(0, os.SEEK_END)
            if not file.size or here != file.size:
                http_get(file.url, out, resume_size=here, headers=headers, tqdm_class=ticker)  # type: ignore[arg-type]  # called as one
            out.flush()
            os.fsync(out.fileno())
    except HfHubHTTPError as error:
        if error.response.status_code != 416 or not part.stat().st_size:
            raise
        # There is nothing beyond what we have: it was complete, or another file; only a new start can tell.
        part.unlink()
        _transfer(file, part, headers, ticker)
    finally:
        hub_logging.set_verbosity(loudness)


def _check(file: RemoteFile, part: Path, checkpoint: Checkpoint) -> None:
    """Compare a complete file with what its source says about it; a wrong one is removed."""
    from huggingface_hub.utils.sha import git_hash

    if file.sha256:
        expected, got = file.sha256, sha256_of(part)
    elif file.git_id:
        expected, got = file.git_id, git_hash(part.read_bytes())
    else:
        got = f"{part.stat().st_size} bytes"
        expected = f"{file.size} bytes" if file.size else got
    try:
        refuse_web_page(part, f"What {file.url} sent for {checkpoint.name}")
        if expected != got:
            raise WeightsError(
                f"{file.name} of {checkpoint.name} is not what it should be: expected {expected}, got {got}. "
                f"It was removed. Try again; if that does not help, see {checkpoint.home}."
            )
    except WeightsError:
        part.unlink()
        raise


class _Ticker:
    """What `http_get` asks of a progress bar, told to a function instead."""

    def __init__(self, progress: Progress, name: str, before: int, total: int) -> None:
        self._progress, self._name, self._before, self._total = progress, name, before, total
        self._here = 0

    def __call__(self, total: int | None = None, initial: int = 0, **_: Any) -> _Ticker:
        self._here = initial
        self._total = self._total or total or 0
        self.update(0)
        return self

    def __enter__(self) -> _Ticker:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def update(self, count: int = 1) -> None:
        """So many bytes more; a negative number where a server made us start again."""
        self._here += count
        self._progress(self._name, self._before + self._here, self._total)


@contextmanager
def _plain_words(checkpoint: Checkpoint) -> Iterator[None]:
    """Say in the user's words what went wrong on the network, and what to do."""
    try:
        import httpx2
        from huggingface_hub import errors
    except ImportError as error:
        raise WeightsError(f"{MISSING_LIBRARY} ({error}).") from error

    name, by_hand = checkpoint.name, f"`spectrabox weights add {checkpoint.name} PATH` takes a copy from elsewhere"
    try:
        yield
    except errors.GatedRepoError as error:
        raise WeightsError(f"{name} is gated: {access(checkpoint)}. Then fetch it again.") from error
    except errors.RepositoryNotFoundError as error:
        advice = access(checkpoint) if checkpoint.gated else "check the name; if it is private, `hf auth login` first"
        raise WeightsError(f"The hub shows no repository {name} to you: {advice}.") from error
    except errors.HfHubHTTPError as error:
        status = f"{error.response.status_code} {error.response.reason_phrase}".strip()
        where = error.response.url
        raise WeightsError(
            f"{where} answered {status}: {name} was not fetched. See {checkpoint.home}; {by_hand}."
        ) from error
    except errors.OfflineModeIsEnabled as error:
        raise WeightsError(f"{name} was not fetched: HF_HUB_OFFLINE is set. Unset it; or {by_hand}.") from error
    except ValueError as error:
        raise WeightsError(
            f"{name} was not fetched: the hub's answer makes no sense ({error}). "
            "A proxy or a log-in page may have answered in its place."
        ) from error
    except httpx2.HTTPError as error:
        reason = str(error) or type(error).__name__
        raise WeightsError(
            f"{name} was not fetched: the network failed ({reason}). Run `spectrabox weights fetch {name}` again: it "
            f"goes on where it stopped. Without a network, {by_hand}."
        ) from error


def access(checkpoint: Checkpoint) -> str:
    """How to get at a gated checkpoint."""
    return f"accept the licence at {checkpoint.home} with your Hugging Face account, and log in with `hf auth login`"
