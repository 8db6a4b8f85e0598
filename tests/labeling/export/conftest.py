"""A store whose boxes lie between pixels, with its videos and actions beside them; not to be changed."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from labeling.export.job import ExportConfig
from labeling.store import Store
from tests.labeling.conftest import FRAMES, build_store

LICENCE = "CC-BY-4.0"
CONFIG = ExportConfig(licence=LICENCE, validation=0.3)


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Three videos; of each two tracks, one of them without a category, and one that was dropped."""
    folder = tmp_path_factory.mktemp("export")
    built = build_store(folder, "a.mp4", "more/b.mp4", "c d.mp4", category=(0, -1))
    root = zarr.open_group(str(built.path), mode="r+")
    for number, id in enumerate(built.ids):
        boxes = root[f"videos/{id}/boxes"]
        rng = np.random.default_rng(number)
        boxes[:] = np.asarray(boxes) + rng.uniform(0.05, 0.95, boxes.shape).astype(np.float32)
        source = folder / "videos" / str(root[f"videos/{id}"].attrs["source"])
        np.save(source.with_suffix(".actions.npy"), rng.normal(size=(FRAMES, 2)).astype(np.float32))
    return Store(built.path)


Box = tuple[str, int, int]  # name of the video, frame, instance


def truth(store: Store, dropped: bool = False) -> dict[Box, np.ndarray]:
    """Every box of the store, x1 y1 x2 y2; with those of dropped tracks if asked for."""
    found = {}
    for labels in store.values():
        for tracks in (labels.tracks, labels.dropped)[: 1 + dropped]:
            for track in tracks:
                for frame in np.flatnonzero(track.present).tolist():
                    found[labels.source, frame, track.instance] = track.boxes[frame]
    return found


def same(found: dict[Box, np.ndarray], expected: dict[Box, np.ndarray], within: float = 2e-6) -> None:
    """The same boxes, each where it should be."""
    assert found.keys() == expected.keys()
    for key, box in expected.items():
        np.testing.assert_allclose(found[key], box, atol=within, rtol=0, err_msg=str(key))
