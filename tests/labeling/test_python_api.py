"""The store in Python: what docs/python_api.md shows is what happens."""

from __future__ import annotations

import doctest
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeling.store import Store, StoreError

MakeStore = Callable[..., Store]
PAGE = Path(__file__).parents[2] / "docs" / "python_api.md"


def test_every_example_of_the_page_gives_what_it_says(make_store: MakeStore, tmp_path: Path, monkeypatch) -> None:
    make_store("clip.mp4")
    monkeypatch.chdir(tmp_path)
    found = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.FAIL_FAST)
    assert found.attempted > 20
    assert not found.failed


@settings(deadline=None, max_examples=15)
@given(start=st.integers(-30, 30) | st.none(), stop=st.integers(-30, 30) | st.none())
def test_a_slice_has_what_the_whole_has_there(sound_store: Path, start: int | None, stop: int | None) -> None:
    whole = Store(sound_store)["squares"]
    part = whole[start:stop]
    chosen = range(whole.frames)[start:stop]
    for name, values in whole.tracks.arrays().items():
        expected = values if name in ("category", "instance", "prominence") else values[start:stop]
        np.testing.assert_array_equal(getattr(part.tracks, name), expected)
    assert part.dropped.boxes.shape == (len(chosen), 1, 4)
    cells = [(frame + part.first, track, runs.tolist()) for frame, track, runs in part.mask_runs()]
    assert cells == [(f, n, runs.tolist()) for f, n, runs in whole.mask_runs() if f in chosen]
    if part.frames:
        np.testing.assert_array_equal(part.mask(-1, 0), whole.mask(chosen[-1], 0))


def test_a_slice_of_a_slice_counts_from_its_own_start(sound_store: Path) -> None:
    part = Store(sound_store)["squares"][4:20][2:5]
    assert (part.first, part.frames) == (6, 3)
    assert part.to_pandas()["frame"].unique().tolist() == [6, 7, 8]


@pytest.mark.parametrize("frames", [3, slice(0, 9, 2)])
def test_what_is_no_stretch_of_frames_is_refused(sound_store: Path, frames) -> None:
    with pytest.raises(TypeError, match=r"labels\[10:20\]"):
        Store(sound_store)["squares"][frames]


def test_data_frames_hold_every_box_of_every_video(make_store: MakeStore) -> None:
    store = make_store("a.mp4", "b.mp4", category=(0, -1), videos=False)
    table = store.to_pandas()
    for id, labels in store.items():
        for track in labels.tracks:
            rows = table[(table["video"] == id) & (table["instance"] == track.instance)]
            np.testing.assert_array_equal(rows["frame"], np.flatnonzero(track.present))
            np.testing.assert_array_equal(rows[["x1", "y1", "x2", "y2"]], track.boxes[track.present])
            assert set(rows["name"]) == {"unassigned" if track.category < 0 else f"object-{track.category + 1}"}


def test_without_pandas_there_is_a_word_about_it(sound_store: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(StoreError, match=r"need pandas: pip install"):
        Store(sound_store).to_pandas()


@pytest.mark.parametrize("track", [2, -3])
def test_a_track_that_is_not_there_has_no_mask_of_another_frame(make_store: MakeStore, track: int) -> None:
    labels = make_store()["squares"]
    with pytest.raises(IndexError):
        labels.mask(5, track)
    np.testing.assert_array_equal(labels.mask(5, -1), labels.mask(5, 1))
