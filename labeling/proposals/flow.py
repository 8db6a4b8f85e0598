"""What moves by itself while the camera moves?

Dense flow between neighbouring frames, the camera's share of it, and what is left: the own motion of things, summed
along their paths. Everything is computed on maps of a fixed small size, (h, w), whatever the size of the video.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

FLOW_SIDE = 428  # longest side on which flow is computed, pixels; half of a 480p video
MIN_FLOW_SIDE = 192  # small videos are not halved below this: boxes on 256 pixels lose a sixth of their overlap at 128
CAMERA_GRID = 6  # the camera is fitted to every sixth pixel of the map in both directions
FAIR_TEXTURE = 4.0  # grey levels squared: where the weaker gradient is smaller than this, flow is half guessed
SLIGHT = 0.03  # map pixels: flow is never more precise than this
PATH_MEMORY = 0.9  # weight of own motion one frame further along a path
PATH_TOLERANCE = 0.5  # a path goes on while own motion changes by less than about this share


@dataclass(slots=True)
class Step:
    """One frame on the small map, and the flow that leads from it to the next."""

    texture: np.ndarray  # (h, w) float32, 0 to 1: how much the flow can be trusted here
    forward: np.ndarray  # (h, w, 2) where each pixel is on the next frame
    backward: np.ndarray  # (h, w, 2) where each pixel was on the frame before
    own: np.ndarray  # (h, w, 2) flow to the next frame without the camera's share
    noise: float  # usual length of `own` in the background
    camera: np.ndarray  # (3, 3) homography from this frame's map to the next


class FlowMaps:
    """Sizes and coordinates of the small maps of one video, and the flow estimator."""

    def __init__(self, height: int, width: int) -> None:
        """Choose map sizes for frames of `height` x `width` pixels."""
        longest = max(height, width)
        side = min(longest, max(MIN_FLOW_SIDE, min(FLOW_SIDE, round(longest / 2))))
        self.flow_size = max(16, round(width * side / longest)), max(16, round(height * side / longest))
        self.size = (self.flow_size[0] + 1) // 2, (self.flow_size[1] + 1) // 2  # every other pixel of the flow
        w, h = self.size
        self.x, self.y = (grid.astype(np.float32) for grid in np.meshgrid(np.arange(w), np.arange(h)))
        self.here = np.dstack([self.x, self.y])  # (h, w, 2)
        self.to_map = np.diag([self.flow_size[0] / width / 2, self.flow_size[1] / height / 2, 1.0])
        across, down = np.minimum(self.x + 0.5, w - self.x - 0.5) / w, np.minimum(self.y + 0.5, h - self.y - 0.5) / h
        self.rim = np.exp(-across / 0.06) + np.exp(-down / 0.06)  # (h, w) 1 at the rim, fading inwards
        self._estimator = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
        # a coarser stride and fewer iterations than the preset: half the time, nearly the same masks
        self._estimator.setPatchStride(4)
        self._estimator.setGradientDescentIterations(12)
        self._estimator.setVariationalRefinementIterations(3)

    def grey(self, small: np.ndarray) -> np.ndarray:
        """The grey picture on which flow is computed, from one of `flow_size` (2h, 2w, 3)."""
        return cv2.cvtColor(small, cv2.COLOR_RGB2GRAY)

    def step(self, grey: np.ndarray, following: np.ndarray | None, previous: Step | None) -> Step:
        """Describe a frame, given its grey picture and that of the next frame (None at the end of the shot)."""
        texture = _texture(cv2.pyrDown(grey))
        backward = self.here
        if previous is not None:
            flow = previous.forward - self.here
            backward = self.here - flow
            for _ in range(2):
                backward = self.here - pull(flow, backward)
        if following is None:
            nothing = np.zeros_like(self.here)
            return Step(texture, self.here, backward, nothing, previous.noise if previous else 0.0, np.eye(3))
        flow = self._estimator.calc(grey, following, None)[::2, ::2] * np.float32(0.5)
        camera, own, noise = self._without_camera(flow, texture)
        return Step(texture, self.here + flow, backward, own, noise, camera)

    def _without_camera(self, flow: np.ndarray, texture: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """The camera's homography, what it leaves of the flow, and the noise of that in the background."""
        cells = slice(CAMERA_GRID // 2, None, CAMERA_GRID)
        points = np.stack([self.x[cells, cells], self.y[cells, cells]], -1).reshape(-1, 2)
        moved = points + flow[cells, cells].reshape(-1, 2)
        trust = texture[cells, cells].ravel()
        good = trust >= np.quantile(trust, 0.3)
        camera = None
        if good.sum() >= 8:
            camera, _ = cv2.findHomography(points[good], moved[good], cv2.USAC_FAST, 1.0, maxIters=300)
        if camera is None or not 0.3 < np.linalg.det(camera[:2, :2]) < 3:
            camera = np.eye(3)
        own = flow - (cv2.perspectiveTransform(self.here, camera) - self.here)
        rest, noise = self._affine_rest(own[cells, cells].reshape(-1, 2), points, trust)
        return camera, own - rest, noise

    def _affine_rest(self, own: np.ndarray, points: np.ndarray, trust: np.ndarray) -> tuple[np.ndarray, float]:
        """An affine motion that own motion (N, 2) of the background still has in common, (h, w, 2), and the noise.

        Fitted robustly, with more weight near the rim of the picture: that is background more often than not.
        """
        w, h = self.size
        place = points / [w / 2, h / 2] - 1
        terms = np.concatenate([place, np.ones((len(place), 1))], 1)
        prior = (trust + 1e-3) * (0.3 + 0.7 * np.abs(place).max(1) ** 2)
        length = np.hypot(own[:, 0], own[:, 1])
        noise = max(0.02, _weighted_median(length, trust))
        solution = np.zeros((3, 2))
        for _ in range(4):
            weight = prior / (1 + (length / (3 * noise)) ** 2) ** 2
            normal = (terms * weight[:, None]).T @ terms + 1e-3 * weight.sum() * np.eye(3)
            solution = np.linalg.solve(normal, (terms * weight[:, None]).T @ own)
            left = own - terms @ solution
            length = np.hypot(left[:, 0], left[:, 1])
            noise = max(0.02, _weighted_median(length, trust))
        (a, b), (c, d), (e, f) = solution
        affine = np.array([[2 * a / w, 2 * c / h, e - a - c], [2 * b / w, 2 * d / h, f - b - d]])
        return cv2.transform(self.here, affine), noise


def pull(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Fetch for every pixel the value (h, w) or (h, w, C) that lies at its place (h, w, 2)."""
    return cv2.remap(values, places, None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)


def motion_along_paths(steps: list[Step]) -> list[tuple[np.ndarray, float]]:
    """Own motion of every frame, summed along each pixel's path both ways, (h, w, 2), and its noise.

    A slow object goes one way for many frames, while errors of the flow, water and leaves do not. A path ends where
    the own motion changes: there something else covers the pixel.
    """
    count = len(steps)
    ahead = [step.own for step in steps]
    for t in range(count - 2, -1, -1):
        step = steps[t]
        goes_on = _goes_on(step.own, pull(steps[t + 1].own, step.forward), step.noise)
        ahead[t] = step.own + goes_on * pull(ahead[t + 1], step.forward)
    behind = [np.zeros_like(steps[0].own)]
    for t in range(1, count):
        before, so_far = steps[t - 1], steps[t - 1].own
        if t > 1:
            earlier = pull(steps[t - 2].own, before.backward)
            so_far = so_far + _goes_on(before.own, earlier, before.noise) * behind[t - 1]
        behind.append(pull(so_far, steps[t].backward))
    result = []
    for step, future, past in zip(steps, ahead, behind, strict=True):
        total = future + past
        length = np.hypot(total[::4, ::4, 0], total[::4, ::4, 1])
        result.append((total, _weighted_median(length.ravel(), step.texture[::4, ::4].ravel())))
    return result


def _goes_on(here: np.ndarray, there: np.ndarray, noise: float) -> np.ndarray:
    """Weight (h, w, 2) with which a path goes on from own motion `here` to that of the next frame."""
    smaller = np.minimum(_squared(here), _squared(there))
    allowed = PATH_TOLERANCE**2 * smaller + (3 * noise + 0.05) ** 2
    weight = PATH_MEMORY * cv2.exp(-_squared(here - there) / allowed)
    return cv2.merge([weight, weight])


def _squared(vectors: np.ndarray) -> np.ndarray:
    return vectors[..., 0] ** 2 + vectors[..., 1] ** 2


def _texture(grey: np.ndarray) -> np.ndarray:
    """How well flow is pinned down at each pixel of a grey map, 0 to 1: gradients in two directions are best."""
    across = cv2.Sobel(grey, cv2.CV_32F, 1, 0, scale=1 / 8)
    down = cv2.Sobel(grey, cv2.CV_32F, 0, 1, scale=1 / 8)
    xx, yy, xy = (cv2.boxFilter(product, -1, (5, 5)) for product in (across * across, down * down, across * down))
    mean = (xx + yy) / 2
    weaker = mean - cv2.sqrt(((xx - yy) / 2) ** 2 + xy * xy) + 0.15 * mean
    return weaker / (weaker + FAIR_TEXTURE)


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order][min(len(order) - 1, np.searchsorted(total, total[-1] / 2))])
