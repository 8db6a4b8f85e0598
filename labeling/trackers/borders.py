"""Do the things of this scene turn at the border of the frame?

Balls in a box bounce off the frame's border, people walk out over it. What objects that were seen alone did is counted;
where nearly all of them turned, the others are expected to turn there too, also while they cannot be seen alone.
"""

from __future__ import annotations

import numpy as np

from labeling.trackers.targets import RIGID, Target

ENOUGH = 2  # turns seen before anything is expected to turn
CLEARLY = 0.2  # sizes by which it must be nearer to where it should be if it turned than to the border
STRAIGHT = 0.25  # sizes: nothing is said about what swerves so much that its place is not known as well as this
MOSTLY = 4  # turns seen for each time that the border cut something off


class Borders:
    """What happened where objects met the border."""

    def __init__(self) -> None:
        """Begin without experience."""
        self._turned = self._went_on = 0
        self._met: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    @property
    def turn(self) -> bool:
        """Are things expected to turn at the border?"""
        return self._turned >= max(ENOUGH, MOSTLY * self._went_on)

    def meet(self, targets: list[Target], shape: tuple[int, int]) -> None:
        """Take in the targets as predicted for a frame of height, width `shape`: those at the border may turn."""
        self._met = {}
        for target in targets:
            if target.rigid < RIGID:
                continue
            position, velocity = target.motion.position, target.motion.velocity
            x1, y1, x2, y2 = target.template.reach(position)
            if x1 > 0 and y1 > 0 and x2 < shape[1] and y2 < shape[0]:
                continue
            before, after = target.template.edges()
            most = np.maximum(np.array([shape[1], shape[0]]) - after, before)
            low, high = (position < before) & (velocity < 0), (position > most) & (velocity > 0)
            if not (low | high).any():
                continue
            turned = np.where(low, 2 * before - position, np.where(high, 2 * most - position, position))
            self._met[id(target)] = turned, np.clip(position, before, most)
            if self.turn and not target.leaving and target.motion.deviation < STRAIGHT * target.size:
                target.motion.reflect(turned, low | high)

    def learn(self, target: Target, centre: np.ndarray) -> None:
        """A target was seen alone at `centre` (2,): did it turn, if it was at the border?"""
        if id(target) in self._met:
            turned, held = self._met[id(target)]
            nearer = np.linalg.norm(centre - held) - np.linalg.norm(centre - turned)
            self._went_on += target.leaving
            self._turned += int(not target.leaving and bool(nearer > CLEARLY * target.size))
