"""How did the camera move between two pictures?

Works on small grey copies. `share_unmoved` is a cheap test for a camera that stands still; `camera_motion` follows
corners and fits a homography. Where a picture does not show that the camera moved, the answer is that it did not.
"""

from __future__ import annotations

import cv2
import numpy as np

SMALL_SIDE = 320  # longest side of the small copies
GRID = 8  # the picture is judged in GRID x GRID cells, so that one textured corner does not decide for all of it
EDGE = 12  # grey levels across two pixels from which on a pixel shows whether it moved
SHIFT = 0.25  # pixels: a pixel whose change a smaller shift explains has not moved (plus a grey level of noise)
TEXTURED = 0.02  # share of edge pixels from which on a cell has a say
MAX_CORNERS = 80
MIN_CORNERS = 12  # fewer than this say nothing about the camera
WINDOW = (13, 13)  # small pixels around a corner that are looked for on the other picture
LEVELS = 3  # halvings of the picture: motion of up to a third of it is followed
PRECISE = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 10, 0.03)
CONTRADICTION = 0.15  # share of corners that stay where a moving camera would not leave them
FOUND_AGAIN = 0.7  # small pixels: a corner followed there and back must end this near to where it began


class SmallCopies:
    """Small copies of the pictures of one video, and the way back to their full size."""

    def __init__(self, height: int, width: int) -> None:
        scale = max(1.0, max(height, width) / SMALL_SIDE)
        self.size = max(8, round(width / scale)), max(8, round(height / scale))
        self._shrink = np.diag([self.size[0] / width, self.size[1] / height, 1.0])

    def of(self, image: np.ndarray) -> np.ndarray:
        """An image at the small size. Halving first is ten times quicker than averaging over odd areas."""
        while image.shape[1] >= 2 * self.size[0] and image.shape[0] >= 2 * self.size[1]:
            half = image.shape[1] // 2, image.shape[0] // 2
            image = cv2.resize(image[: 2 * half[1], : 2 * half[0]], half, interpolation=cv2.INTER_AREA)
        return np.asarray(cv2.resize(image, self.size, interpolation=cv2.INTER_LINEAR))

    def enlarged(self, camera: np.ndarray) -> np.ndarray:
        """A homography (3, 3) between small copies as one between the full pictures."""
        return np.asarray(np.linalg.inv(self._shrink) @ camera @ self._shrink)


def share_unmoved(before: np.ndarray, now: np.ndarray) -> tuple[float, int]:
    """Share of the textured cells of a grey picture that have not moved, and how many cells are textured."""
    inner = before[1:-1, 1:-1]
    across = cv2.absdiff(before[1:-1, 2:], before[1:-1, :-2])
    slope = cv2.max(across, cv2.absdiff(before[2:, 1:-1], before[:-2, 1:-1]))
    edge = cv2.compare(slope, EDGE, cv2.CMP_GE)
    allowed = cv2.convertScaleAbs(slope, alpha=SHIFT / 2, beta=1)
    stays = cv2.bitwise_and(edge, cv2.compare(cv2.absdiff(inner, now[1:-1, 1:-1]), allowed, cv2.CMP_LE))
    edges, unmoved = _cells(edge), _cells(stays)
    textured = edges >= TEXTURED * 255
    count = int(textured.sum())
    return (float((unmoved[textured] >= 0.5 * edges[textured]).mean()) if count else 1.0), count


def camera_motion(before: np.ndarray, now: np.ndarray) -> tuple[np.ndarray, float | None]:
    """Homography of the scene from one small grey picture to the next, and the share of corners found again.

    The share is None if there are too few corners to tell.
    """
    stands = np.eye(3)
    corners = cv2.goodFeaturesToTrack(before, MAX_CORNERS, 0.01, _spacing(before), blockSize=5)
    if corners is None or len(corners) < MIN_CORNERS:
        return stands, None
    moved, found = _follow(before, now, corners)
    back, found_back = _follow(now, before, moved)
    good = found & found_back & (np.abs(back - corners).max((1, 2)) < FOUND_AGAIN)
    share = float(good.mean())
    if good.sum() < MIN_CORNERS:
        return stands, share
    source, target = corners[good, 0], moved[good, 0]
    matrix = _fit(source, target)
    if matrix is None:
        return stands, share
    expected = _moved(source, matrix)
    fits = np.abs(expected - target).max(1) < 1.0
    stays = (np.abs(target - source).max(1) < 0.3) & (np.abs(expected - source).max(1) > 1.0)
    moves = stays.mean() < CONTRADICTION and _widespread(source[fits], before.shape)
    return (matrix if moves else stands), share


def _spacing(picture: np.ndarray) -> float:
    """Least distance between corners, such that they are spread over all of the picture and not over its trees."""
    return max(3.0, 0.5 * float(np.sqrt(picture.size / MAX_CORNERS)))


def mean_motion(matrix: np.ndarray, width: float, height: float) -> float:
    """Mean distance that the corners and the middle of a picture move under a homography (3, 3)."""
    points = np.array([[0, 0], [width, 0], [0, height], [width, height], [width / 2, height / 2]])
    return float(np.linalg.norm(_moved(points, matrix) - points, axis=1).mean())


def _follow(before: np.ndarray, now: np.ndarray, corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where corners (N, 1, 2) of one picture are on the other, and whether they were found."""
    moved, found, _ = cv2.calcOpticalFlowPyrLK(
        before, now, corners, np.empty_like(corners), winSize=WINDOW, maxLevel=LEVELS, criteria=PRECISE
    )
    return moved, found.ravel() > 0


def _fit(source: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    """A homography if it is a plausible one, else a similarity, else None."""
    matrix, _ = cv2.findHomography(source, target, cv2.USAC_FAST, 1.0, maxIters=300)
    if matrix is not None and 0.7 < np.linalg.det(matrix[:2, :2]) < 1.4 and np.abs(matrix[2, :2]).max() < 1e-3:
        return matrix
    similar, _ = cv2.estimateAffinePartial2D(source, target, method=cv2.RANSAC, ransacReprojThreshold=1.0, maxIters=300)
    return None if similar is None else np.vstack([similar, [0.0, 0.0, 1.0]])


def _moved(points: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    return cv2.perspectiveTransform(points[:, None].astype(np.float64), matrix)[:, 0]


def _widespread(points: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Do points (N, 2) lie over much of the picture in both directions?"""
    cells = (points * [GRID / shape[1], GRID / shape[0]]).astype(int)
    if len(np.unique(cells[:, 0] * GRID + cells[:, 1])) < GRID:
        return False
    return bool((np.ptp(cells, axis=0) >= GRID // 2).all())


def _cells(picture: np.ndarray) -> np.ndarray:
    """Mean of each cell of a picture (h, w) uint8, (GRID, GRID) float64. Cells of whole pixels are quickest."""
    height, width = (side - side % GRID or side for side in picture.shape)
    picture = picture[:height, :width]
    return cv2.resize(picture, (GRID, GRID), interpolation=cv2.INTER_AREA).astype(np.float64)
