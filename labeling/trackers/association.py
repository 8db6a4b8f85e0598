"""Which mask on this frame is which object of the frames before?

Takes proposals frame by frame and yields observations: each mask with the number of its track. Objects are predicted,
matched with the proposals by place, overlap and looks, told apart inside merged blobs, and remembered while hidden.
The state is that of the objects in view and of a few frames, so memory does not grow with the video.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice

import numpy as np
from pydantic import BaseModel, Field

from labeling.embeddings import Embedder
from labeling.proposals import FrameProposals
from labeling.trackers import Observation
from labeling.trackers.borders import Borders
from labeling.trackers.follower import BREAKING, Follower
from labeling.trackers.kinds import Kinds
from labeling.trackers.targets import Target
from labeling.trackers.views import View, scenes, views
from labeling.video import Video


class AssociationConfig(BaseModel, extra="forbid", frozen=True):
    """Settings of the association tracker."""

    patience: int = Field(default=20, ge=0, description="Frames for which a lost object is looked for on its way.")
    fill: int = Field(default=10, ge=0, description="Gaps of up to this many frames between sightings are filled.")
    look_ahead: int = Field(
        default=48, ge=1, description="Frames seen ahead where a scene begins, to know its objects."
    )
    strictness: float = Field(default=2.2, gt=0, description="Highest cost of a match; lower makes shorter tracks.")


class AssociationTracker:
    """Kalman prediction, linear assignment, and splitting of merged blobs by remembered shapes."""

    def __init__(self, config: AssociationConfig | None = None) -> None:
        """Set up with `config`, or the defaults."""
        self.config = config or AssociationConfig()

    def track(
        self, frames: Iterable[FrameProposals], embedder: Embedder, video: Video | None = None
    ) -> Iterator[Observation]:
        """Yield what is seen of each object, in frame order, a few frames behind the proposals."""
        born = 0
        for scene in scenes(views(frames, embedder)):
            opening = list(islice(scene, self.config.look_ahead))
            targets, kinds, borders = self._known_at_start(opening, embedder)
            follower = self._follower(embedder, targets, kinds, borders, born)
            for number, view in enumerate(chain(opening, scene)):
                follower.step(view, predict=number > 0)
                yield from follower.history.release(view.index - self.config.fill)
            yield from follower.history.release()
            born = follower.born

    def _known_at_start(self, opening: list[View], embedder: Embedder) -> tuple[list[Target], Kinds, Borders]:
        """Follow a scene's first frames backwards: objects that begin as one blob are known from when they parted."""
        follower = self._follower(embedder, [], Kinds(), Borders(), 0)
        if max(len(view.blobs) for view in opening) < 2:
            return [], follower.kinds, follower.borders
        camera = np.eye(3)
        for number, view in enumerate(reversed(opening)):
            follower.step(replace(view, camera=camera), predict=number > 0)
            follower.history.forget()
            camera = np.linalg.inv(view.camera)
        known = [target for target in follower.targets if target.confirmed and target.unmeasured <= BREAKING]
        for target in known:
            target.number, target.described = -1, 0
            target.motion.velocity = -target.motion.velocity
        return known, follower.kinds, follower.borders

    def _follower(
        self, embedder: Embedder, targets: list[Target], kinds: Kinds, borders: Borders, born: int
    ) -> Follower:
        config = self.config
        return Follower(embedder, targets, kinds, borders, born, config.patience, config.fill, config.strictness)
