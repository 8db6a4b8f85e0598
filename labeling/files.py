"""How is a file written so that nobody finds half of it, and nothing lands anywhere else?

Under another name first, which then takes its place. A link that waits there, in a folder that came from somebody
else, is replaced and never followed.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from labeling.problems import RunError, shown


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write a file whole, or leave what is there as it is; text is UTF-8."""
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(data)
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return path


def refuse_links(folder: Path, below: int = 1, besides: str = "") -> None:
    """RunError if something in a folder that is written to is a link, `below` levels deep; `besides` may be one."""
    for entry in os.scandir(folder):
        if entry.is_symlink() and entry.name != besides:
            raise RunError(
                f"{shown(entry.path)} is a link, and nothing is written through links. Put what it leads to in its "
                "place, or remove it."
            )
        if below > 1 and entry.is_dir(follow_symlinks=False):
            refuse_links(Path(entry.path), below - 1)
