"""How are objects in a bucket read, listed and written?

The one module that knows obstore, imported only where a URL is used. Where the bucket is and who asks comes from the
environment (AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and so on). Whatever goes wrong on
the way to it is a `StorageError`, which ends a run: no video is to blame, and nothing of the store is given up.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import obstore
from obstore import exceptions
from obstore.store import S3Store
from zarr.abc.buffer import Buffer
from zarr.storage import ObjectStore

from labeling.pictures import is_numbered
from labeling.places import StorageError, Url
from labeling.problems import Unreadable, VideoError, shown

BLOCK = 1 << 22  # bytes of a download that are in memory at a time
AT_ONCE = 8  # pictures of a folder that are fetched side by side
RETRIES = 8  # with pauses that double: storage may be busy, or away for a moment
GIVE_UP = timedelta(minutes=2)
# One of these says who asks. Without any, one would ask the machine's own service for a role, which few machines have.
IDENTITY = (
    "AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_METADATA_ENDPOINT", "AWS_SKIP_SIGNATURE",
)  # fmt: skip

File = tuple[str, int, str]  # name, size, and a tag that changes with the content


def bucket_of(url: Url, below: str | None = None) -> S3Store:
    """The bucket of a URL, or what lies below a key of it, with the environment's endpoint and credentials."""
    variables = sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_"))
    return _connected(url.bucket, below, tuple(variables))


@lru_cache(maxsize=8)  # a connection serves many requests
def _connected(bucket: str, below: str | None, variables: tuple[tuple[str, str], ...]) -> S3Store:
    settings = dict(variables)
    endpoint = _endpoint(settings)
    if "@" in endpoint:
        raise StorageError("AWS_ENDPOINT_URL has a password in it, which would end up in messages. Leave it out there.")
    if not any(settings.get(name) for name in IDENTITY):
        raise StorageError(
            "There are no credentials for object storage. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the "
            "environment, or AWS_SKIP_SIGNATURE=true for a public bucket."
        )
    with plainly(Url(bucket)):
        return S3Store(
            bucket, prefix=below, client_options={"allow_http": endpoint.startswith("http://")},
            retry_config={"max_retries": RETRIES, "retry_timeout": GIVE_UP},
        )  # fmt: skip


def _endpoint(variables: Mapping[str, str]) -> str:
    """Where the storage is; empty: at Amazon."""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    return next((value for name in names if (value := variables.get(name))), "")


@contextmanager
def plainly(url: Url) -> Iterator[None]:
    """Raise StorageError, which names the URL, where storage complains; FileNotFoundError of an object passes."""
    try:
        yield
    except (exceptions.BaseError, FileNotFoundError) as error:
        if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in str(error):
            raise
        raise StorageError(f"{shown(str(url))}: {_complaint(url, error)}") from error


def _complaint(url: Url, error: Exception) -> str:
    text = str(error)
    if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError):
        return "access is denied. Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and the rights to the bucket."
    if "NoSuchBucket" in text:
        return f"there is no bucket {url.bucket}. Check its name, AWS_ENDPOINT_URL and AWS_REGION."
    if "error sending request" in text:
        where = _endpoint(os.environ) or "Amazon S3"
        return f"{where} does not answer. Check AWS_ENDPOINT_URL and the network, and run the same command again."
    return f"object storage says: {text.partition(chr(10))[0][:300]}"


def facts_of(url: Url) -> File | None:
    """Name, size and tag of an object; None if there is none."""
    try:
        with plainly(url):
            return _file(obstore.head(bucket_of(url), url.key)) if url.key else None
    except (FileNotFoundError, ValueError):  # a name that no object can have
        return None


def holds_objects(url: Url) -> bool:
    """Whether there is any object below a URL."""
    with plainly(url):
        try:
            return next(iter(obstore.list(bucket_of(url), url.key or None, chunk_size=1)), None) is not None
        except exceptions.InvalidPathError:  # there is one, with an odd name
            return True


def listed(url: Url) -> tuple[list[str], list[File]]:
    """Names of the folders, and the objects, right below a URL, each sorted; VideoError if one has an unusable name."""
    with plainly(url):
        try:
            found = obstore.list_with_delimiter(bucket_of(url), url.key or None)
        except exceptions.InvalidPathError as error:
            raise VideoError(
                f"{shown(str(url))} holds an object with an empty part (//), a dot alone or a line break in its name. "
                "Rename it."
            ) from error
    folders = sorted(path.rpartition("/")[2] for path in found["common_prefixes"])
    # A console marks an empty folder by an object of the folder's own name.
    return folders, sorted(_file(meta) for meta in found["objects"] if meta["path"] != url.key)


def state_of(url: Url) -> list[File]:
    """Name, size and tag of an object, or of the objects of a folder; VideoError if there is neither."""
    one = facts_of(url)
    files = [one] if one else listed(url)[1]
    if not files:
        raise Unreadable(f"{shown(str(url))} does not exist: it was moved or deleted. Put it back.")
    return files


def states_in(urls: Iterable[Url]) -> dict[Url, list[File]]:
    """The states of objects and of folders of objects, by listing each folder that they are in once."""
    folders: dict[Url, dict[str, File]] = {}

    def files_of(folder: Url) -> dict[str, File]:
        if folder not in folders:
            folders[folder] = {file[0]: file for file in listed(folder)[1]}
        return folders[folder]

    beside = {url: files_of(url.parent).get(url.name) for url in urls}
    return {url: [file] if file else list(files_of(url).values()) for url, file in beside.items()}


def fetch(url: Url, folder: Path, watch: Callable[[], None] | None = None) -> Path:
    """Copy an object, or the numbered pictures of a folder, into `folder`; returns where the copy is.

    Raises:
        VideoError: It does not exist, or its content may not be read.
        StorageError: Storage cannot be reached, or the disk has no room for the copy.
    """
    copy = folder / url.name
    try:
        if facts_of(url):
            _download(url, copy, watch)
            return copy
        pictures = [name for name, _, _ in state_of(url) if is_numbered(name)]
        copy.mkdir()
        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(lambda name: _download(url / name, copy / name, watch), pictures))
        return copy
    except OSError as error:
        raise StorageError(
            f"{shown(str(url))} cannot be copied to {folder}: {error.strerror}. Make room there, or name a folder on "
            "a larger disk by the environment variable TMPDIR."
        ) from error


def _download(url: Url, copy: Path, watch: Callable[[], None] | None) -> None:
    try:
        with plainly(url), copy.open("wb") as file:
            answer = obstore.get(bucket_of(url), url.key)
            for block in answer.stream(min_chunk_size=BLOCK):
                file.write(block)
                if watch:
                    watch()
    except FileNotFoundError as error:
        raise Unreadable(f"{shown(str(url))} does not exist: it was moved or deleted. Put it back.") from error
    except StorageError as error:
        if isinstance(error.__cause__, exceptions.PermissionDeniedError):  # it was listed: just this one is closed
            raise Unreadable(f"{shown(str(url))} may not be read: access is denied. Check its rights.") from error
        raise


def _file(meta: Any) -> File:
    """An object's name, size and tag; of a service without tags, the time it was written."""
    return meta["path"].rpartition("/")[2], meta["size"], meta["e_tag"] or meta["last_modified"].isoformat()


class Zarr(ObjectStore[S3Store]):
    """What zarr reads and writes through; its errors are for the user."""

    def __init__(self, store: S3Store, *, read_only: bool = False, url: Url | None = None) -> None:
        super().__init__(store, read_only=read_only)
        self.url = url or Url("")
        self._there: set[str] = set()  # what zarr made sure of already: it asks again for every new array

    def with_read_only(self, read_only: bool = False) -> Zarr:
        """The same, for reading only or not."""
        return Zarr(self.store, read_only=read_only, url=self.url)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write an object unless it is there."""
        if key not in self._there:
            with plainly(self.url):
                await super().set_if_not_exists(key, value)
            self._there.add(key)

    async def delete_dir(self, prefix: str) -> None:
        """Remove all objects below a prefix."""
        self._there = {key for key in self._there if not key.startswith(prefix)}
        with plainly(self.url):
            await super().delete_dir(prefix)

    async def list_dir(self, prefix: str) -> AsyncGenerator[str, None]:
        """Names right below a prefix."""
        with plainly(self.url):
            async for name in super().list_dir(prefix):
                yield name


def _plain(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def asked(self: Zarr, *arguments: Any, **options: Any) -> Any:
        with plainly(self.url):
            return await method(self, *arguments, **options)

    return asked


for _name in ("get", "get_partial_values", "set", "exists", "getsize", "delete"):
    setattr(Zarr, _name, _plain(getattr(ObjectStore, _name)))


def zarr_store(url: Url, read_only: bool) -> Zarr:
    """A zarr store at a URL."""
    return Zarr(bucket_of(url, below=url.key or None), read_only=read_only, url=url)
