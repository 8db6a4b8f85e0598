"""Read a video, or learn why it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labeling.video import Frame, Video, VideoError


def read(path: Path, **options: Any) -> list[Frame]:
    return list(Video(path, **options).frames())


def refusal(path: Path) -> str:
    """The message with which a file is refused; it always names the file and ends with a remedy."""
    with pytest.raises(VideoError) as caught:
        read(path)
    message = str(caught.value)
    assert path.name in message
    assert message.endswith(".")
    assert message.rstrip(".").count(". ") >= 1, "a reason and a remedy are two sentences"
    return message
