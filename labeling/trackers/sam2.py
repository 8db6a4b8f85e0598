"""Where do the objects go that proposals show? SAM 2, SAM 3's tracker or EdgeTAM follow them by their masks.

Takes frames with proposals on some of them and yields observations of every object on every frame, in frame order.
SAM takes no embeddings: looks decide which proposal brings a lost object back, and that one's mask is the prompt.
What is held is a window of frames and some seconds of masks, so memory does not grow with the video.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

from labeling.embeddings import Embedder
from labeling.proposals import FrameProposals
from labeling.trackers import Observation
from labeling.trackers.sam_config import SamConfig
from labeling.trackers.sam_held import Held
from labeling.trackers.sam_protocol import Segmenter
from labeling.trackers.sam_scene import Scene
from labeling.video import Video

__all__ = ["SamConfig", "SamTracker"]


class SamTracker:
    """Follows objects from their best proposal on, forward and backward."""

    def __init__(self, config: SamConfig, segmenter: Segmenter) -> None:
        """Follow with a network that is loaded already; `from_checkpoint` loads one."""
        self.config, self._segmenter = config, segmenter

    @classmethod
    def from_checkpoint(cls, path: str | Path, config: SamConfig | None = None, device: str = "auto") -> SamTracker:
        """Load the network at `path`: a folder with config.json and safetensors."""
        from labeling.trackers.sam_loading import load

        config = config or SamConfig()
        return cls(config, load(path, config.image_size, device, config.conditioning))

    def track(self, frames: Iterable[FrameProposals], embedder: Embedder, video: Video) -> Iterator[Observation]:
        """Yield what is seen of each object, in frame order, a window and `reach` behind the proposals."""
        held, numbers = Held(), count()
        scene: Scene | None = None
        for window in _windows(frames, self.config.window):
            begin = window[0].frame.index
            if scene is None or window[0].cut:
                yield from held.release()
                scene = Scene(self.config, self._segmenter, embedder, video, held, numbers, begin)
            scene.take(window)
            yield from held.release(begin + len(window) - self.config.reach)
        yield from held.release()


def _windows(frames: Iterable[FrameProposals], size: int) -> Iterator[list[FrameProposals]]:
    """Up to `size` frames at a time; a cut begins a new window."""
    window: list[FrameProposals] = []
    for proposed in frames:
        if window and (proposed.cut or len(window) == size):
            yield window
            window = []
        window.append(proposed)
    if window:
        yield window
