"""What edits make of labels: never less than what was found, and exactly that once they are undone."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from labeling import open_store
from labeling.geometry import upright
from labeling.review.edits import EDIT, Edit, in_words
from labeling.review.outcome import Automatic, EditError, Piece, TrackTable
from labeling.store import Store
from labeling.tracks import Tracks
from tests.labeling.review.editing import edit, everything, same

MakeStore = Callable[..., Store]
V = "squares.mp4"
FRAMES = 24
ALL = (1, 2, 7)  # the store's tracks; 7 was dropped by a filter


def table(count: int = 4) -> TrackTable:
    numbers = np.arange(count)
    return TrackTable(Automatic(FRAMES, numbers, numbers % 2, np.linspace(0.9, 0.1, count), numbers != count - 1))


def track_edits(numbers: st.SearchStrategy[int]) -> st.SearchStrategy[Edit]:
    some = st.lists(numbers, min_size=1, max_size=3, unique=True)
    two = st.lists(numbers, min_size=2, max_size=2, unique=True)
    frame = st.integers(1, FRAMES - 1)
    rows = st.one_of(
        st.fixed_dictionaries({"kind": st.just("merge-tracks"), "tracks": two}),
        st.fixed_dictionaries(
            {"kind": st.just("split-track"), "track": numbers, "frame": frame, "new": st.integers(10, 20)}
        ),
        st.fixed_dictionaries({"kind": st.just("swap-tracks"), "tracks": two, "frame": frame}),
        st.fixed_dictionaries({"kind": st.sampled_from(["drop-tracks", "keep-tracks"]), "tracks": some}),
        st.fixed_dictionaries({"kind": st.just("assign-tracks"), "tracks": some, "category": st.integers(-1, 1)}),
    )
    return rows.map(lambda row: EDIT.validate_python(row | {"video": V}))


@given(st.lists(track_edits(st.integers(0, 4) | st.integers(10, 20)), max_size=12))
def test_every_box_is_in_one_track_whatever_is_done(edits: list[Edit]) -> None:
    tracks = table()
    for one in edits:
        before = dict(tracks.tracks)
        try:
            tracks.do(one)
        except EditError:
            assert tracks.tracks == before, "an edit that is refused does nothing"
    covered = np.zeros((4, FRAMES), int)
    for number, track in tracks.tracks.items():
        assert track.instance == number
        assert track.pieces
        for piece in track.pieces:
            assert piece.start < piece.stop
            covered[piece.source, piece.start : piece.stop] += 1
    assert (covered == 1).all()


@given(st.lists(track_edits(st.integers(0, 3)), max_size=6), st.integers(1, FRAMES - 1))
def test_swapping_twice_changes_nothing(edits: list[Edit], frame: int) -> None:
    tracks = table()
    for one in edits:
        try:
            tracks.do(one)
        except EditError:
            continue
    if len(tracks.tracks) < 2:
        return
    one, other = list(tracks.tracks)[:2]
    before = dict(tracks.tracks)
    swap = EDIT.validate_python({"kind": "swap-tracks", "video": V, "tracks": (one, other), "frame": frame})
    try:
        tracks.do(swap)
    except EditError:
        assert tracks.tracks == before
        return
    tracks.do(swap)
    assert {n: set(t.pieces) for n, t in tracks.tracks.items()} == {n: set(t.pieces) for n, t in before.items()}


@given(st.integers(1, FRAMES - 1))
def test_a_split_is_healed_by_a_merge(frame: int) -> None:
    tracks = table()
    whole = tracks.tracks[1]
    tracks.do(EDIT.validate_python({"kind": "split-track", "video": V, "track": 1, "frame": frame, "new": 9}))
    assert tracks.tracks[9].pieces == (Piece(1, frame, FRAMES),)
    tracks.do(EDIT.validate_python({"kind": "merge-tracks", "video": V, "tracks": (1, 9)}))
    assert tracks.tracks[1] == whole


STORE_EDITS = st.one_of(
    track_edits(st.sampled_from([*ALL, 8, 9])),
    st.sampled_from(["check-video", "uncheck-video"]).map(
        lambda kind: EDIT.validate_python({"kind": kind, "video": V})
    ),
    st.builds(
        lambda kind, category: EDIT.validate_python({"kind": kind, "category": category}),
        st.sampled_from(["drop-category", "keep-category"]), st.integers(-1, 1),
    ),
    st.builds(
        lambda name, category: EDIT.validate_python({"kind": "rename-category", "category": category, "name": name}),
        st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=9),
        st.integers(0, 1),
    ),
    st.just(EDIT.validate_python({"kind": "merge-categories", "categories": [1], "into": 0})),
)  # fmt: skip


def consistent(store: Store) -> Tracks:
    """The tracks of a reviewed video; its parts, its masks and the table of categories say the same."""
    labels = store[V]
    tracks, part = labels.tracks, labels[5:13]
    for name, values in part.tracks.arrays().items():
        whole = getattr(tracks, name)
        np.testing.assert_array_equal(values, whole[5:13] if len(whole) == FRAMES else whole)
    assert all(tracks.present[frame, index] for frame, index, _ in labels.mask_runs())
    assert (np.diff(tracks.prominence) <= 0).all()
    counts = Counter(tracks.category.tolist())
    assert {row.id: row.size for row in store.categories} == {row.id: counts[row.id] for row in store.categories}
    assert len(labels.reasons) == len(labels.dropped)
    return tracks


@settings(deadline=None, max_examples=8)
@given(edits=st.lists(STORE_EDITS, min_size=1, max_size=6))
def test_undoing_gives_back_every_bit_and_the_automatic_labels_never_change(
    sound_store: Path, tmp_path_factory: pytest.TempPathFactory, edits: list[Edit]
) -> None:
    path = shutil.copytree(sound_store, tmp_path_factory.mktemp("copy") / "labels.zarr")
    found, stored = Store(path)[V], everything(Store(path).root)
    desk, done = edit(Store(path)), 0
    states = [open_store(path)[V].tracks]
    for one in edits:
        try:
            desk.edit(one, desk.version)
        except EditError:
            continue
        done += 1
        states.append(consistent(open_store(path)))
    assert everything(Store(path).root) == stored
    same(open_store(path, reviewed=False)[V].tracks, found.tracks)
    for state in reversed(states[:-1]):
        desk.undo(desk.version)
        same(open_store(path)[V].tracks, state)
    assert open_store(path).categories == Store(path, reviewed=False).categories
    assert open_store(path)[V].attributes == found.attributes
    assert open_store(path)[V].reasons == found.reasons
    for state in states[1:]:
        desk.redo(desk.version)
        same(open_store(path)[V].tracks, state)
    assert len(desk.log.done) == done


def test_merged_tracks_have_the_boxes_of_both_and_a_split_takes_them_apart(make_store: MakeStore) -> None:
    store = make_store(videos=False)
    red, blue = (store[V].tracks.select(np.array([n])) for n in (0, 1))
    edit(store, {"kind": "merge-tracks", "video": V, "tracks": [1, 2]})
    merged = open_store(store.path)[V]
    assert merged.tracks.instance.tolist() == [1]
    alone = ~blue.present[:, 0]
    np.testing.assert_array_equal(merged.boxes[alone, 0], red.boxes[alone, 0])
    both = ~alone
    np.testing.assert_array_equal(merged.boxes[both, 0, :2], np.minimum(red.boxes, blue.boxes)[both, 0, :2])
    np.testing.assert_allclose(merged.tracks.oriented[both, 0], upright(merged.boxes[both, 0]))
    np.testing.assert_array_equal(merged.boxes[both, 0, 2:], np.maximum(red.boxes, blue.boxes)[both, 0, 2:])
    frame = int(np.flatnonzero(both)[0])
    found = open_store(store.path, reviewed=False)[V]
    union = found.mask(frame, 0) | found.mask(frame, 1)
    np.testing.assert_array_equal(merged.mask(frame, 0), union)
    edit(store, {"kind": "split-track", "video": V, "track": 1, "frame": 12})
    parts = open_store(store.path)[V].tracks
    assert parts.instance.tolist() == [1, 8]
    assert not parts.present[12:, 0].any()
    assert not parts.present[:12, 1].any()
    np.testing.assert_array_equal(
        np.where(np.isnan(parts.boxes[:, 0]), parts.boxes[:, 1], parts.boxes[:, 0]), merged.boxes[:, 0]
    )


def test_a_swap_exchanges_boxes_and_masks_from_its_frame_on(make_store: MakeStore) -> None:
    store = make_store(videos=False)
    edit(store, {"kind": "swap-tracks", "video": V, "tracks": [1, 2], "frame": 18})
    before, after = open_store(store.path, reviewed=False)[V], open_store(store.path)[V]
    np.testing.assert_array_equal(after.boxes[:18], before.boxes[:18])
    np.testing.assert_array_equal(after.boxes[18:], before.boxes[18:, ::-1])
    np.testing.assert_array_equal(after.mask(20, 0), before.mask(20, 1))
    part = after[16:20]
    np.testing.assert_array_equal(part.boxes, after.boxes[16:20])
    cells = {(frame + part.first, track): runs.tolist() for frame, track, runs in part.mask_runs()}
    whole = {(f, n): runs.tolist() for f, n, runs in after.mask_runs() if 16 <= f < 20}
    assert cells == whole
    assert len(cells) == 8


def test_a_track_that_a_filter_dropped_comes_back_and_one_that_was_kept_goes(make_store: MakeStore) -> None:
    store = make_store(videos=False)
    edit(store, {"kind": "keep-tracks", "video": V, "tracks": [7]}, {"kind": "drop-tracks", "video": V, "tracks": [1]})
    labels, found = open_store(store.path)[V], open_store(store.path, reviewed=False)[V]
    assert sorted(labels.tracks.instance) == [2, 7]
    same(labels.tracks.select(labels.tracks.instance == 7), found.dropped)
    same(labels.dropped, found.tracks.select(np.array([0])))
    assert labels.reasons == [{"instance": 1, "reason": "dropped in review", "detail": "", "frames": FRAMES}]


def test_categories_are_named_merged_and_dropped_for_all_videos(make_store: MakeStore) -> None:
    store = make_store("a.mp4", "b.mp4", videos=False)
    edit(
        store, {"kind": "rename-category", "category": 0, "name": "<script>"}, {"kind": "drop-category", "category": 1}
    )
    opened = open_store(store.path)
    assert [(row.name, row.kept) for row in opened.categories] == [("<script>", True), ("object-2", False)]
    assert [labels.tracks.instance.tolist() for labels in opened.values()] == [[1], [1]]
    assert opened["a"].name_of(0) == "<script>"
    assert (
        opened["b"].reasons[-1]["detail"] == "with all of object-2"
        or opened["b"].reasons[0]["detail"] == "with all of object-2"
    )
    found = open_store(store.path, reviewed=False)["a"]
    assert opened["a"].attributes["recipe"] != found.attributes["recipe"], "what was made of them is made anew"
    edit(store, {"kind": "merge-categories", "categories": [1], "into": 0})
    opened = open_store(store.path)
    assert [(row.id, row.name, row.size) for row in opened.categories] == [(0, "<script>", 2)]
    assert opened["a"].tracks.category.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"kind": "merge-tracks", "video": V, "tracks": [1, 5]}, "no track 5"),
        ({"kind": "merge-tracks", "video": V, "tracks": [1, 1]}, "named twice"),
        ({"kind": "merge-tracks", "video": "other.mp4", "tracks": [1, 2]}, "no video other.mp4"),
        ({"kind": "split-track", "video": V, "track": 2, "frame": 24}, "not there both before frame 24"),
        ({"kind": "keep-tracks", "video": V, "tracks": [1]}, "1 is kept already"),
        ({"kind": "uncheck-video", "video": V}, "it is so already"),
        ({"kind": "rename-category", "category": 0, "name": "object-2"}, "object-2 already: merge the two"),
        ({"kind": "drop-category", "category": 5}, "no category 5"),
        ({"kind": "assign-tracks", "video": V, "tracks": [1], "category": 5}, "no category 5"),
        ({"kind": "merge-categories", "categories": [0], "into": 0}, "into itself"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_reason(make_store: MakeStore, row: dict, why: str) -> None:
    store = make_store(videos=False)
    with pytest.raises(EditError, match=why):
        edit(store, row)
    assert open_store(store.path).review is None


def test_there_is_nothing_to_split_where_a_track_is_not_in_view(make_store: MakeStore) -> None:
    store = make_store(videos=False)
    edit(store, {"kind": "split-track", "video": V, "track": 2, "frame": 10})  # away on frames 8 to 15
    with pytest.raises(EditError, match="track 2 is not in view from frame 9 on"):
        edit(store, {"kind": "split-track", "video": V, "track": 2, "frame": 9})


@pytest.mark.parametrize("name", ["", "  ", "a\x00b", "a\u202eb", "x" * 81])
def test_a_name_is_a_line_of_text(name: str) -> None:
    with pytest.raises(ValidationError):
        EDIT.validate_python({"kind": "rename-category", "category": 0, "name": name})


def test_edits_are_told_in_words() -> None:
    merge = EDIT.validate_python({"kind": "merge-tracks", "video": V, "tracks": [3, 4, 5]})
    assert in_words(merge, str) == "tracks 4 and 5 merged into 3"
    many = EDIT.validate_python({"kind": "drop-tracks", "video": V, "tracks": list(range(20))})
    assert in_words(many, str) == "tracks 0, 1, 2, 3, 4 and 15 more dropped"
