"""Figures that can be worked out by hand, and what is not judged and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labeling.metrics import compare, follow, match
from labeling.scoring import Figures, score
from labeling.scoring.figures import MEASURES, measure
from labeling.store import open_store
from tests.labeling.review.editing import edit
from tests.labeling.scored_clips import FRAMES, WIDTH, as_trackeval, box, only, store_with, swapped, thing, truth_beside

ONE, OTHER = box(5, 5), box(5, 30)
PERFECT = Figures(
    hota=1, deta=1, assa=1, idf1=1, ap50=1, ap=1, ar=1, recall=1, precision=1, id_switches=0, edge_error=0,
    category_ari=1, coverage=1,
)  # fmt: skip
LOST = Figures(hota=0, deta=0, assa=0, idf1=0, ap50=0, ap=0, ar=0, recall=0, coverage=0)


def alike(one: Figures, other: Figures) -> None:
    for name, value in other.values().items():
        assert one.values()[name] == (value if value is None else pytest.approx(value, abs=1e-6)), name


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([ONE, OTHER], PERFECT),
        ([OTHER, ONE], PERFECT),
        # 7.5 of 12.5 rows in common, an overlap of 0.6: 12 of 19 thresholds, three of COCO's ten, edges off by
        # 2.5 pixels up and down and by none left and right.
        (
            [box(5, 7.5), box(5, 32.5)],
            replace(PERFECT, hota=12 / 19, deta=12 / 19, assa=12 / 19, ap=0.3, ar=0.3, edge_error=1.25),
        ),
        # Both tracks share 5 frames with either object, of 15 together; two changes in ten frames. Each object is
        # followed longest by the track that began with it.
        (swapped(ONE, OTHER), replace(PERFECT, hota=(5 / 15) ** 0.5, assa=5 / 15, idf1=0.5, id_switches=200)),
        # COCO asks at 101 recalls, 51 of which half of the objects reach. One object has no kinds to tell apart.
        (
            [ONE],
            Figures(
                hota=0.5**0.5, deta=0.5, assa=1, idf1=2 / 3, ap50=51 / 101, ap=51 / 101, ar=0.5, recall=0.5,
                precision=1, id_switches=0, edge_error=0, coverage=0.5,
            ),
        ),
        # One of three tracks is made up. It is the least sure, so COCO's precision is 1 until all is found.
        (
            [ONE, OTHER, box(60, 30)],
            replace(PERFECT, hota=(2 / 3) ** 0.5, deta=2 / 3, idf1=4 / 5, precision=2 / 3),
        ),
        ([], LOST),
    ],
    ids=["identity", "any order", "shifted", "swapped", "missing", "made up", "nothing found"],
)  # fmt: skip
def test_figures_worked_out_by_hand(tmp_path: Path, found: list[np.ndarray], expected: Figures) -> None:
    truth = store_with(tmp_path / "truth.zarr", {"a.mp4": [ONE, OTHER]})
    scores = score(store_with(tmp_path / "labels.zarr", {"a.mp4": found}), truth)
    clip = scores.clips[0]
    alike(clip.figures, expected)
    alike(scores.mean, expected)
    assert (clip.frames, clip.objects, clip.tracks) == (FRAMES, 2, len(found))
    assert scores.problems == {}
    assert scores.notes == []


def test_a_truth_without_objects_leaves_nothing_to_find_but_something_to_make_up(tmp_path: Path) -> None:
    truth = store_with(tmp_path / "truth.zarr", {"a.mp4": [], "b.mp4": []})
    scores = score(store_with(tmp_path / "labels.zarr", {"a.mp4": [ONE], "b.mp4": []}), truth)
    assert scores.clips[0].figures == Figures(hota=0, deta=0, assa=0, idf1=0, precision=0)
    assert scores.clips[1].figures == Figures()
    assert scores.mean.hota == 0


def test_clips_that_the_store_does_not_have_count_as_missed_and_are_named(tmp_path: Path) -> None:
    truth = store_with(tmp_path / "truth.zarr", {"a.mp4": [ONE, OTHER], "b.mp4": [ONE], "c.mp4": [ONE]})
    store = store_with(tmp_path / "labels.zarr", {"a.mp4": [ONE, OTHER], "d.mp4": [ONE]})
    scores = score(store, truth)
    assert scores.notes == [
        "2 clips (b.mp4, c.mp4) of the truth: not in the store, so all objects there count as missed.",
        "1 clip (d.mp4) of the store: not in the truth, so not judged.",
    ]
    assert [clip.film is None for clip in scores.clips] == [False, True, True]
    alike(scores.clips[1].figures, LOST)
    assert scores.mean.hota == pytest.approx(1 / 3)
    assert scores.mean.precision == 1, "where nothing was found, nothing was wrong"


def test_a_store_without_videos_has_found_nothing(tmp_path: Path) -> None:
    truth = store_with(tmp_path / "truth.zarr", {"a.mp4": [ONE]})
    alike(score(store_with(tmp_path / "labels.zarr", {}), truth).mean, LOST)


def test_categories_are_judged_over_all_clips(tmp_path: Path) -> None:
    tracks = {name: [ONE, OTHER] for name in ("a.mp4", "b.mp4")}
    truth = store_with(tmp_path / "truth.zarr", tracks, category=[0, 1])
    assert score(store_with(tmp_path / "right.zarr", tracks, category=[2, 0]), truth).mean.category_ari == 1
    mixed = score(store_with(tmp_path / "wrong.zarr", tracks, category=[1, 1]), truth)
    assert [clip.figures.category_ari for clip in mixed.clips] == [0, 0]
    assert mixed.mean.category_ari == 0
    unknown = score(store_with(tmp_path / "right.zarr", tracks), store_with(tmp_path / "u.zarr", tracks, [-1, -1]))
    assert unknown.mean.category_ari is None


def test_the_reviewed_labels_are_judged(tmp_path: Path) -> None:
    truth = store_with(tmp_path / "truth.zarr", {"a.mp4": [ONE]})
    store = store_with(tmp_path / "labels.zarr", {"a.mp4": [ONE, OTHER]})
    assert score(store.path, truth).mean.precision == 0.5
    edit(store, {"kind": "drop-tracks", "video": "a.mp4", "tracks": [2]})
    assert score(store.path, truth).mean.precision == 1
    assert score(open_store(store.path, reviewed=False), truth).mean.precision == 0.5


def test_truth_of_another_length_is_judged_on_its_frames_and_said_so(tmp_path: Path) -> None:
    store = store_with(tmp_path / "labels.zarr", {"a.mp4": [ONE], "b.mp4": [ONE]})
    folder = truth_beside(tmp_path / "truth", "a", [thing(ONE[:6])], frames=6)
    truth_beside(folder, "b", [thing(np.concatenate([ONE, ONE[-1:]]))], frames=11)
    scores = score(store, folder)
    assert scores.notes == [
        "a: the truth has 6 frames, the labels have 10.", "b: the truth has 11 frames, the labels have 10.",
    ]  # fmt: skip
    assert [clip.figures.recall for clip in scores.clips] == [1, 10 / 11]
    assert scores.clips[0].figures.precision == 1


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"width": 99}, "a.json: it is for 99 x 50 pixels, a.mp4 has 100 x 50"),
        ({"frames": 9}, "a.json at objects.0.boxes: 10 for 9 frames"),
        ({"objects": [{"boxes": "x"}]}, "a.json at objects.0.boxes: Input should be a valid list"),
        ({"kind": "single-foreground", "objects": []}, "has one object, and its role is main"),
    ],
    ids=["size", "length", "nonsense", "foreground"],
)
def test_truth_that_does_not_fit_is_named_and_the_rest_goes_on(tmp_path: Path, more: dict, reason: str) -> None:
    store = store_with(tmp_path / "labels.zarr", {"a.mp4": [ONE], "b.mp4": [ONE]})
    folder = truth_beside(tmp_path / "truth", "b", [thing(ONE)])
    truth_beside(folder, "a", [thing(ONE)], **more)
    scores = score(store, folder)
    assert [clip.name for clip in scores.clips] == ["b"]
    assert list(scores.problems) == ["a"]
    assert reason in scores.problems["a"]


def test_worst_frames_are_those_that_differ_and_say_how(tmp_path: Path) -> None:
    truth = store_with(tmp_path / "truth.zarr", {"a.mp4": [ONE, OTHER]})
    found = [ONE, only(OTHER, slice(0, 8)), only(box(60, 30), slice(8, 10))]
    clip = score(store_with(tmp_path / "labels.zarr", {"a.mp4": found}), truth).clips[0]
    assert [worst.frame for worst in clip.worst] == [8, 9]
    worst = clip.worst[0]
    assert worst.agreement == pytest.approx(1 / 3)  # one of three boxes is right
    assert {mark.fate: mark.name for mark in worst.marks} == {
        "true": "ball 1", "missed": "ball 2", "found": "1", "extra": "3",
    }  # fmt: skip


def test_a_changed_identity_is_among_the_worst_frames(tmp_path: Path) -> None:
    truth = store_with(tmp_path / "truth.zarr", {"a.mp4": [ONE, OTHER]})
    clip = score(store_with(tmp_path / "labels.zarr", {"a.mp4": swapped(ONE, OTHER)}), truth).clips[0]
    assert [worst.frame for worst in clip.worst] == [5]
    assert clip.worst[0].switches == ["ball 1: track 1 before, 2 now", "ball 2: track 2 before, 1 now"]


def test_figures_are_those_of_faster_coco_eval_called_as_its_documentation_does() -> None:
    from faster_coco_eval import COCO, COCOeval_faster

    rng = np.random.default_rng(3)
    true = np.stack([box(x, y) for x, y in ((5, 5), (30, 10), (60, 30))], 1)
    found = np.concatenate([true, true[:, :1] + 20], 1) + rng.normal(0, 1.2, (FRAMES, 4, 4))
    found[rng.random((FRAMES, 4)) < 0.2] = np.nan
    score_of = rng.uniform(0.1, 1, (FRAMES, 4))
    figures = measure(found, score_of, true, match(found, true), follow(found, true), [], WIDTH)
    images = [{"id": frame + 1, "width": 100, "height": 50} for frame in range(FRAMES)]
    rows = [
        {"image_id": frame + 1, "category_id": 7, "bbox": [x1, y1, x2 - x1, y2 - y1], "score": score_of[frame, track]}
        for frame in range(FRAMES)
        for track, (x1, y1, x2, y2) in enumerate(found[frame].tolist())
        if np.isfinite(x1)
    ]
    annotations = [
        {"id": number, "image_id": frame + 1, "category_id": 7, "bbox": [x1, y1, x2 - x1, y2 - y1], "iscrowd": 0,
         "area": (x2 - x1) * (y2 - y1)}
        for number, (frame, (x1, y1, x2, y2)) in enumerate(
            ((frame, row.tolist()) for frame in range(FRAMES) for row in true[frame]), 1
        )
    ]  # fmt: skip
    truth = COCO({"images": images, "annotations": annotations, "categories": [{"id": 7, "name": "object"}]})
    judge = COCOeval_faster(truth, truth.loadRes(rows), "bbox")
    judge.run()
    assert (figures.ap, figures.ap50, figures.ar) == pytest.approx((judge.stats[0], judge.stats[1], judge.stats[8]))
    assert 0.1 < (figures.ap or 0) < 0.9, "a case that could tell them apart"
    assert figures.hota == compare(found, true).hota


def test_a_score_is_what_trackeval_says_of_the_same_boxes(tmp_path: Path) -> None:
    pytest.importorskip("trackeval", reason="pip install --no-deps trackeval==1.3.0")
    from trackeval.metrics import CLEAR, HOTA, Identity

    rng = np.random.default_rng(5)
    true = [box(x, y) for x, y in ((5, 5), (12, 9), (40, 30), (60, 32))]
    found = [track + rng.normal(0, 1, track.shape) for track in (*swapped(true[0], true[1], 4), true[2])]
    found.append(only(found.pop(), slice(2, 7)))
    store, truth = store_with(tmp_path / "a.zarr", {"a.mp4": found}), store_with(tmp_path / "b.zarr", {"a.mp4": true})
    figures = score(store, truth).mean
    data = as_trackeval(store["a"].boxes.astype(float), truth["a"].boxes.astype(float))
    hota, quiet = HOTA().eval_sequence(data), {"PRINT_CONFIG": False}
    clear, identity = CLEAR(quiet).eval_sequence(data), Identity(quiet).eval_sequence(data)
    theirs = (hota["HOTA"].mean(), hota["DetA"].mean(), hota["AssA"].mean(), identity["IDF1"])
    assert (figures.hota, figures.deta, figures.assa, figures.idf1) == pytest.approx(theirs, abs=1e-12)
    assert (figures.recall, figures.precision) == pytest.approx((clear["CLR_Re"], clear["CLR_Pr"]))
    assert figures.id_switches == 1000 * clear["IDSW"] / FRAMES
    assert clear["IDSW"] > 0, "a case that could tell them apart"


def test_every_figure_has_four_characters_at_most() -> None:
    assert set(MEASURES) == set(Figures().values())
    shares, numbers = MEASURES["hota"], MEASURES["id_switches"]
    assert [shares.text(value) for value in (None, 0.0, 0.94712, 0.9996, 1.0)] == ["–", ".000", ".947", "1.00", "1.00"]
    assert [numbers.text(value) for value in (0.0, 0.236, 9.996, 56.34, 1000.0)] == [
        "0.00",
        "0.24",
        "10.0",
        "56.3",
        "1000",
    ]
    assert shares.text(-0.0214) == "-.021"
