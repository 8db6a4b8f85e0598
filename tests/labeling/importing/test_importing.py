"""Other tools' labels become a store like any other."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from labeling.export import FORMATS, ExportConfig, export
from labeling.geometry import upright
from labeling.importing import import_labels
from labeling.locks import locked
from labeling.palette import colour_of
from labeling.problems import RunError
from labeling.store import SCHEMA, Store, StoreError, write_tracks
from labeling.tracks import Tracks
from labeling.validate import validate
from tests.labeling.conftest import FRAMES, HEIGHT, WIDTH, build_store, encode_video
from training.manifest import PrepareConfig
from training.prepare import prepare

PLACES = {"mot": 2e-6, "coco": 2e-6, "youtube-vis": 1.1e-3}  # to how many pixels each format holds a box


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one video."""
    folder = tmp_path_factory.mktemp("clip")
    encode_video(folder / "sub" / "clip.mp4")
    return folder


def store_of(path: Path, clip: Path, boxes: np.ndarray, category: np.ndarray) -> Store:
    """A store of the clip with given tracks."""
    root = zarr.open_group(str(path), mode="w", zarr_format=3)
    group = root.create_group("videos/clip.mp4")
    count = boxes.shape[1]
    score = np.where(np.isnan(boxes[..., 0]), np.nan, 0.5).astype(np.float32)
    write_tracks(
        group,
        Tracks(
            np.arange(FRAMES) / 12, boxes, upright(boxes), (boxes[..., :2] + boxes[..., 2:]) / 2, score,
            category.astype(np.int32), np.arange(count, dtype=np.int32) + 3, np.ones(count, np.float32),
        ),
    )  # fmt: skip
    facts = {"source": "sub/clip.mp4", "fps": 12.0, "frames": FRAMES, "height": HEIGHT, "width": WIDTH, "cuts": []}
    sha256 = hashlib.sha256((clip / "sub" / "clip.mp4").read_bytes()).hexdigest()
    group.attrs.update(facts | {"sha256": sha256, "recipe": "r", "dropped": [], "complete": True})
    table = [{"id": id, "name": f"kind {id}", "colour": colour_of(id), "size": 1, "kept": True} for id in range(3)]
    facts = {"schema": SCHEMA, "profile": "embedded", "recipe": "r", "videos": str(clip), "failures": {}}
    root.attrs.update(facts | {"categories": table})
    return Store(path)


@st.composite
def tracks(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Boxes (T, N, 4) within the frame, NaN where absent, and a category for each track."""
    count = draw(st.integers(1, 3))
    shares = st.floats(0, 1, width=32)
    low, high = (draw(arrays.arrays(np.float32, (FRAMES, count, 2), elements=shares)) for _ in range(2))
    size = np.array([WIDTH, HEIGHT], np.float32)
    low = np.minimum(low * size, size - 1)
    boxes = np.concatenate([low, np.minimum(low + 0.01 + high * size, size)], axis=-1).astype(np.float32)
    present = draw(arrays.arrays(bool, (FRAMES, count)))
    present[draw(st.integers(0, FRAMES - 1))] = True
    boxes[~present] = np.nan
    return boxes, draw(arrays.arrays(np.int32, count, elements=st.integers(-1, 2)))


@pytest.mark.parametrize("format", sorted(PLACES))
@settings(deadline=None, max_examples=6)
@given(made=tracks())
def test_what_was_exported_is_the_same_when_it_comes_back(clip: Path, format: str, made) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        before = store_of(folder / "before.zarr", clip, *made)
        out = export(before, format, folder / FORMATS[format].out).path
        import_labels(out, clip, folder / "after.zarr")
        assert validate(folder / "after.zarr") == []
        after = Store(folder / "after.zarr")["clip"]
        assert after.attributes["sha256"] == before["clip"].attributes["sha256"]
        found = {track.instance: track for track in after.tracks}
        for track in before["clip"].tracks:
            other = found.pop(track.instance)
            np.testing.assert_allclose(other.boxes, track.boxes, atol=PLACES[format], rtol=0)
            assert after.name_of(other.category) == before["clip"].name_of(track.category)
            if format != "youtube-vis":  # which has one score for a whole track
                np.testing.assert_allclose(other.score, track.score)
        assert not found


@pytest.fixture
def challenge(clip: Path, tmp_path: Path) -> Path:
    """A sequence of MOTChallenge for the clip, still without rows."""
    folder = tmp_path / "MOT" / "clip"
    (folder / "gt").mkdir(parents=True)
    (folder / "seqinfo.ini").write_text("[Sequence]\nname=clip\nimDir=img1\nseqLength=24\nimWidth=96\nimHeight=64\n")
    return folder


def write(folder: Path, *lines: str) -> Path:
    (folder / "gt" / "gt.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder.parent


def test_ground_truth_is_read_as_its_makers_mean_it(challenge: Path, clip: Path, tmp_path: Path) -> None:
    labels = write(
        challenge, "1,2,1,1,10,20,1,1,0.5", "3,2,-4,1,10,20,1,1,1", "2,5,11,21,30,5,1,3,1", "2,9,1,1,5,5,0,8,1",
        "4,5,200,1,10,10,1,3,1",
    )  # fmt: skip
    made = import_labels(labels, clip, tmp_path / "truth.zarr")
    assert (made.videos, made.tracks, made.problems) == (1, 2, {})
    assert validate(made.path) == []
    store = Store(made.path)
    person, car = store["clip"].tracks
    assert [store["clip"].name_of(track.category) for track in (person, car)] == ["pedestrian", "car"]
    np.testing.assert_array_equal(person.boxes[0], [0, 0, 10, 20])
    np.testing.assert_array_equal(person.boxes[2], [0, 0, 5, 20])
    np.testing.assert_array_equal(car.boxes[1], [10, 20, 40, 25])
    assert person.score[0] == 0.5
    assert sorted(made.notes) == [
        "Boxes marked as not to be considered, left out: 1.",
        "Boxes outside of the frame, left out: 1.",
        "Boxes that reached out of the frame, clipped: 1.",
    ]


def test_a_file_without_a_box_is_not_passed_over_in_silence(challenge: Path, clip: Path, tmp_path: Path) -> None:
    made = import_labels(write(challenge), clip, tmp_path / "truth.zarr")
    assert (made.tracks, made.notes) == (0, ["Videos without a box, of which the store says that nothing is there: 1."])


def test_a_label_store_or_a_folder_without_videos_is_told_so(
    sound_store: Path, challenge: Path, tmp_path: Path
) -> None:
    with pytest.raises(StoreError, match="is a label store already"):
        import_labels(sound_store, tmp_path, tmp_path / "truth.zarr")
    (tmp_path / "none").mkdir()
    with pytest.raises(StoreError, match=r"none holds no video\. Say with --videos"):
        import_labels(write(challenge), tmp_path / "none", tmp_path / "truth.zarr")


def test_results_of_a_tracker_keep_their_scores(clip: Path, tmp_path: Path) -> None:
    (tmp_path / "clip.txt").write_text("1,1,1,1,10,20,0.75,-1,-1,-1\n2,1,2,1,10,20,0.5,-1,-1,-1\n")
    made = import_labels(tmp_path / "clip.txt", clip, tmp_path / "found.zarr")
    [track] = Store(made.path)["clip"].tracks
    assert track.score[:2].tolist() == [0.75, 0.5]
    assert [row.name for row in Store(made.path).categories] == ["object"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["1,1,1,1,9,9,1,1,1", "", "2,1,1,1"], r"gt\.txt:3: 4 columns"),
        (["1,1,1,1,9,nine,1,1,1"], r"gt\.txt:1: could not convert"),
        (["1,1,1,1,9,nan,1,1,1"], r"gt\.txt:1: .*whole numbers"),
        (["1.5,1,1,1,9,9,1,1,1"], r"gt\.txt:1: .*whole numbers"),
        (["1,1,1,1,9,9", "25,1,1,1,9,9"], r"gt\.txt:2: it is about frame 25, sub/clip\.mp4 has 24"),
        (["0,1,1,1,9,9"], r"gt\.txt:1: there is no frame before the first"),
        (["1,-1,1,1,9,9"], r"gt\.txt:1: -1 is no identity"),
        (["1,1,1,1,0,9"], r"gt\.txt:1: width and height"),
        (["1,4,1,1,9,9", "2,4,1,1,9,9", "1,4,2,2,9,9"], r"gt\.txt:3: object 4 has a second box .* at 1"),
    ],
)
def test_faults_are_named_with_file_and_line(challenge: Path, clip: Path, tmp_path: Path, lines, words) -> None:
    with pytest.raises(StoreError, match=words):
        import_labels(write(challenge, *lines), clip, tmp_path / "truth.zarr")
    assert not list(tmp_path.glob("*truth.zarr*"))


def test_a_sequence_that_cannot_be_used_is_named_and_the_rest_goes_on(challenge: Path, clip: Path, tmp_path) -> None:
    labels = write(challenge, "1,1,1,1,9,9,1,1,1")
    for name, line in (("gone", "1,1,1,1,9,9,1,1,1"), ("broken", "what?")):
        (labels / name / "gt").mkdir(parents=True)
        (labels / name / "gt" / "gt.txt").write_text(line)
    (challenge / "seqinfo.ini").write_text("[Sequence]\nimWidth=96\nimHeight=64\n")
    made = import_labels(labels, clip, tmp_path / "truth.zarr")
    assert made.problems.keys() == {"gone", "broken"}
    assert "no video of that name" in made.problems["gone"]
    assert made.videos == 1
    assert set(Store(made.path).failures) == {"gone", "broken"}


def test_labels_of_another_size_are_refused(challenge: Path, clip: Path, tmp_path: Path) -> None:
    (challenge / "seqinfo.ini").write_text("[Sequence]\nimWidth=1920\nimHeight=1080\n")
    with pytest.raises(StoreError, match=r"it is for 1920 x 1080 pixels, sub/clip\.mp4 has 96 x 64"):
        import_labels(write(challenge, "1,1,1,1,9,9"), clip, tmp_path / "truth.zarr")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data["annotations"][1].pop("instance_id"), r"labels\.json annotation 1: it has no instance_id"),
        (lambda data: data["annotations"][1].update(image_id=77), r"annotation 1: there is no image 77"),
        (lambda data: data["annotations"][0].update(category_id=9), r"annotation 0: there is no category 9"),
        (lambda data: data["annotations"][1].update(bbox=[1, 2, 3]), r"annotation 1: the box \[1, 2, 3\] is not"),
        (lambda data: data["annotations"][1].update(bbox=[1, 2, -3, 4]), r"annotation 1: width and height"),
        (lambda data: data["images"][0].pop("frame_id"), r"image 0: it has no video_id and frame_id"),
        (lambda data: data.pop("videos"), r"lists no videos"),
        (lambda data: data.pop("annotations"), r"has no annotations"),
        (lambda data: data["categories"][0].update(id="one"), r"category 0: id is one, it must be a number"),
        (lambda data: data["categories"][0].update(name="\ud800"), r"category 0: name is '\?'"),
        (lambda data: data.update(images=3), r"images is 3, it must be a list"),
        (lambda data: data["images"][0].pop("id"), r"image 0: id is missing"),
        (lambda data: data["images"][0].update(height="tall", width=96), r"height is tall"),
        (lambda data: data["videos"][0].update(id=[5]), r"video 0: id is \[5\]"),
        (lambda data: data["annotations"][0].update(category_id=[1]), r"annotation 0: category_id is \[1\]"),
        (lambda data: data["annotations"][0].update(bboxes=7, video_id=5), r"annotation 0: bboxes is 7"),
        (lambda data: data["annotations"][0].update(score="good"), r"annotation 0: score is good"),
        (lambda data: data["annotations"][0].update(instance_id=10**30), r"annotation 0: instance_id is 1000"),
    ],
)
def test_faults_of_coco_are_named_with_file_and_annotation(clip: Path, tmp_path: Path, change, words) -> None:
    data = coco_video()
    file = tmp_path / "labels.json"
    file.write_text(json.dumps(data))
    assert import_labels(file, clip, tmp_path / "good.zarr").tracks == 2
    change(data)
    file.write_text(json.dumps(data))
    with pytest.raises(StoreError, match=words):
        import_labels(file, clip, tmp_path / "bad.zarr")


def coco_video() -> dict[str, list[dict[str, object]]]:
    """Two boxes on the first frame of the clip."""
    boxes = [{"image_id": 1, "category_id": 1, "instance_id": who, "bbox": [1, 2, 3, 4]} for who in (1, 2)]
    return {
        "categories": [{"id": 1, "name": "fly"}], "videos": [{"id": 5, "name": "clip"}],
        "images": [{"id": 1, "video_id": 5, "frame_id": 0}], "annotations": boxes,
    }  # fmt: skip


def test_null_means_that_nothing_is_said(clip: Path, tmp_path: Path) -> None:
    data = coco_video()
    data["annotations"][0].update(score=None, track_id=None)
    data["videos"][0].update(height=None, width=None, file_names=None)
    (tmp_path / "labels.json").write_text(json.dumps(data))
    made = import_labels(tmp_path / "labels.json", clip, tmp_path / "truth.zarr")
    assert (made.tracks, made.problems) == (2, {})
    assert Store(made.path)["clip"].tracks.score[0].tolist() == [1, 1]


def test_a_bad_box_of_one_video_leaves_the_others_of_its_file(clip: Path, tmp_path: Path) -> None:
    data = coco_video()
    data["videos"].append({"id": 6, "name": "other"})
    data["annotations"].append({"video_id": 6, "id": 3, "category_id": 1, "bboxes": [[1, 2, 3]]})
    (tmp_path / "labels.json").write_text(json.dumps(data))
    (tmp_path / "more.json").write_text("{")
    made = import_labels(tmp_path, clip, tmp_path / "truth.zarr")
    assert (made.videos, made.tracks, made.problems.keys()) == (1, 2, {"other", "more.json"})
    assert "labels.json annotation 2: the box [1, 2, 3] is not" in made.problems["other"]
    assert "not valid JSON" in made.problems["more.json"]


def test_broken_json_is_named_with_its_line(clip: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.json").write_text('{"videos": [],\n "annotations": [}')
    with pytest.raises(StoreError, match=r"labels\.json:2: it is not valid JSON"):
        import_labels(tmp_path / "labels.json", clip, tmp_path / "bad.zarr")


def test_a_store_that_was_labeled_is_never_replaced(challenge: Path, clip: Path, tmp_path: Path) -> None:
    labels = write(challenge, "1,1,1,1,9,9")
    made = import_labels(labels, clip, tmp_path / "truth.zarr")
    with pytest.raises(StoreError, match="--force"):
        import_labels(labels, clip, made.path)
    assert import_labels(labels, clip, made.path, force=True).videos == 1
    labeled = build_store(tmp_path, videos=False).path
    with pytest.raises(StoreError, match="was not imported"):
        import_labels(labels, clip, labeled, force=True)


def test_an_imported_store_can_be_trained_on(challenge: Path, clip: Path, tmp_path: Path) -> None:
    rows = [f"{frame + 1},1,{2 * frame + 1},9,16,16,1,1,1" for frame in range(FRAMES)]
    store = import_labels(write(challenge, *rows), clip, tmp_path / "truth.zarr").path
    made = prepare(store, tmp_path / "d.zarr", config=PrepareConfig(size=16))
    assert (made.frames, made.problems, [kind.name for kind in made.categories]) == (FRAMES, {}, ["pedestrian"])


def test_pictures_of_a_sequence_are_its_video(tmp_path: Path) -> None:
    store = build_store(tmp_path)
    out = export(store, "mot", tmp_path / "mot", ExportConfig(pictures=True, validation=0)).path
    made = import_labels(out, out, tmp_path / "again.zarr")
    again = Store(made.path)["train/squares/img1"]
    np.testing.assert_allclose(again.boxes, store["squares"].boxes, atol=1e-5)


def test_a_store_and_its_review_outlive_an_import_that_is_interrupted(
    challenge: Path, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = write(challenge, "1,1,1,1,9,9")
    store = import_labels(labels, clip, tmp_path / "truth.zarr").path
    (store / "review").mkdir()
    (store / "review" / "kept").touch()
    replaced = Path.replace

    def interrupted(self: Path, target: Path) -> Path:
        if self.name.endswith(".part"):
            raise KeyboardInterrupt
        return replaced(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        import_labels(labels, clip, store, force=True)
    assert len(Store(store)) == 1
    assert (store / "review" / "kept").exists()
    store.rename(tmp_path / ".truth.zarr.old")  # as a kill at that moment leaves it
    with pytest.raises(StoreError, match="--force"):
        import_labels(labels, clip, store)
    assert (store / "review" / "kept").exists()


def test_a_store_that_is_being_written_to_is_not_replaced(challenge: Path, clip: Path, tmp_path: Path) -> None:
    labels = write(challenge, "1,1,1,1,9,9")
    store = import_labels(labels, clip, tmp_path / "truth.zarr").path
    with locked(store, "another"), pytest.raises(RunError, match="another run"):
        import_labels(labels, clip, store, force=True)
