"""How good are the boxes as detections, whatever their tracks and categories?

Average precision and recall as COCO defines them, by faster-coco-eval: every frame is an image, every box an object of
one class, and the store's scores rank the found ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from labeling.metrics import present

MOST = 100  # found boxes of a frame that count, as in COCO


class Precision(NamedTuple):
    """Averages over the frames of a clip, 0 to 1."""

    ap: float  # over overlaps of 0.5 to 0.95
    ap50: float
    ar: float


def average_precision(found: np.ndarray, score: np.ndarray, true: np.ndarray) -> Precision:
    """Judge found boxes (T, N, 4) with their scores (T, N) by true ones (T, M, 4), of which there must be some."""
    from faster_coco_eval import COCO, COCOeval_faster

    if not present(found).any():
        return Precision(0.0, 0.0, 0.0)
    truth = COCO({
        "images": [{"id": frame} for frame in range(len(true))], "categories": [{"id": 1, "name": "object"}],
        "annotations": _rows(true),
    })  # fmt: skip
    rows = _rows(found)
    for row, value in zip(rows, np.nan_to_num(score[present(found)]).tolist(), strict=True):
        row["score"] = value
    judge = COCOeval_faster(truth, truth.loadRes(rows), "bbox", print_function=lambda *_: None)
    judge.params.maxDets, judge.params.areaRng, judge.params.areaRngLbl = [MOST], [[0, 1e10]], ["all"]
    judge.evaluate()
    judge.accumulate()
    precision, recall = judge.eval["precision"], judge.eval["recall"]  # by overlap first
    return Precision(float(precision.mean()), float(precision[0].mean()), float(recall.mean()))


def _rows(boxes: np.ndarray) -> list[dict[str, Any]]:
    """Boxes (T, N, 4) as annotations."""
    frames, _ = np.nonzero(present(boxes))
    edges = boxes[present(boxes)]
    sides = edges[:, 2:] - edges[:, :2]
    return [
        {"id": id, "image_id": frame, "category_id": 1, "bbox": [*low, *side], "area": side[0] * side[1], "iscrowd": 0}
        for id, (frame, low, side) in enumerate(
            zip(frames.tolist(), edges[:, :2].tolist(), sides.tolist(), strict=True), 1
        )
    ]
