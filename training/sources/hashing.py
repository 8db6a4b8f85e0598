"""Is a file, or a folder, the one that a manifest means?"""

from __future__ import annotations

import hashlib
from pathlib import Path

from training.dataset_format import DatasetError


def content_hash(path: Path) -> str:
    """SHA-256 of a file; of a folder: of the names and hashes of its files in their order."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    for file_path in sorted(item for item in path.rglob("*") if item.is_file()):
        digest.update(f"{file_path.relative_to(path).as_posix()}\0{content_hash(file_path)}\n".encode())
    return digest.hexdigest()


def refuse_other_content(path: Path, sha256: str) -> None:
    """DatasetError if the content of `path` has another hash."""
    found = content_hash(path)
    if found != sha256:
        raise DatasetError(f"{path} has the SHA-256 {found}, the manifest says {sha256}: it is another file.")
