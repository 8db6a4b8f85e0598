"""Profiles and mixtures of backends, from checkpoints on disk to the store."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labeling import open_store, profiles, weights
from labeling.checkpoints import WeightsError
from labeling.config import LabelConfig, load_config
from labeling.profiles import BackendError, check_backends, names_of, parts_of
from labeling.run import LabelRun, label_folder, side_by_side
from labeling.validate import validate
from labeling.work import WORKERS, work
from tests.labeling.odd_videos import video
from tests.labeling.test_run import contents
from tests.labeling.tiny_dino import write_dinov2
from tests.labeling.tiny_sam import write_tiny_sam
from tests.labeling.tiny_videocutler import write_colour_finder

FRAMES = 16
SMALL = [
    "videocutler.every=4", "videocutler.clip=2", "videocutler.short_side=96", "maskcut.every=4", "maskcut.patches=12",
    "dinov2.image_size=112", "sam.image_size=64", "sam.window=8", "keep_static=true",
]  # fmt: skip


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A red square that walks over a grey floor."""
    folder = tmp_path_factory.mktemp("clips")
    frames = np.full((FRAMES, 96, 128, 3), 128, np.uint8)
    for place, frame in enumerate(frames):
        frame[30:60, 10 + 4 * place : 40 + 4 * place] = (220, 30, 30)
    video(folder / "walk.mp4", frames)
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of weights, filled as `spectrabox weights add` does."""
    made, home = tmp_path_factory.mktemp("made"), tmp_path_factory.mktemp("weights")
    weights.add("videocutler", write_colour_finder(made / "videocutler.pth"), home)
    weights.add("facebook/dinov2-small", write_dinov2(made / "dinov2"), home)
    weights.add("facebook/sam2.1-hiera-small", write_tiny_sam(made / "sam2"), home)
    return home


def settings(cache: Path, **choice: object) -> LabelConfig:
    return load_config(settings=[*SMALL, f"weights.folder={json.dumps(str(cache))}"], **choice)


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["foundation", "maskcut"])
def test_a_profile_of_networks_labels_a_clip(clips: Path, cache: Path, tmp_path: Path, profile: str) -> None:
    out = tmp_path / "labels.zarr"
    summary = label_folder(clips, out, settings(cache, profile=profile))
    assert not summary.failed
    assert validate(out) == []
    labels = open_store(out)["walk"]
    assert labels.frames == FRAMES
    if profile == "foundation":
        assert len(labels.tracks) + len(labels.dropped) >= 1, "the square was proposed, embedded and followed"
    assert label_folder(clips, out, settings(cache, profile=profile)).up_to_date


@pytest.mark.slow
@pytest.mark.parametrize(
    ("proposals", "embeddings", "tracker"),
    [
        ("videocutler", "appearance", "association"), ("videocutler", "dinov2", "association"),
        ("motion", "dinov2", "association"), ("motion", "appearance", "sam2"), ("maskcut", "appearance", "sam2"),
    ],
)  # fmt: skip
def test_any_mixture_labels_a_clip(
    clips: Path, cache: Path, tmp_path: Path, proposals: str, embeddings: str, tracker: str
) -> None:
    config = settings(cache, proposals=proposals, embeddings=embeddings, tracker=tracker)
    assert names_of(config) == (proposals, embeddings, tracker)
    out = tmp_path / "labels.zarr"
    assert not label_folder(clips, out, config).failed
    assert validate(out) == []
    if (proposals, tracker) == ("videocutler", "association"):
        (track,) = range(len(open_store(out)["walk"].tracks))
        boxes = open_store(out)["walk"].boxes[:, track]
        expected = np.array([[10 + 4 * t, 30, 40 + 4 * t, 60] for t in range(FRAMES)])
        assert np.nanmax(np.abs(boxes - expected)) < 4
        assert np.isfinite(boxes).all(), "proposals on every frame, as nobody carries them from one to the next"


@pytest.mark.slow
def test_other_weights_redo_what_they_decide(clips: Path, cache: Path, tmp_path: Path) -> None:
    out, home = tmp_path / "labels.zarr", tmp_path / "weights"
    shutil.copytree(cache, home)
    config = settings(home, proposals="videocutler", embeddings="dinov2")
    label_folder(clips, out, config)
    weights.add("facebook/sam2.1-hiera-small", write_tiny_sam(tmp_path / "sam2"), home)
    assert label_folder(clips, out, config).up_to_date, "nobody asked that network"
    weights.add("facebook/dinov2-small", write_dinov2(tmp_path / "dinov2", seed=5), home)
    assert label_folder(clips, out, config).outcomes[0].fps is not None


@pytest.fixture
def two_clips(clips: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "clips"
    folder.mkdir()
    for name in ("a.mp4", "b.mp4"):
        shutil.copy(clips / "walk.mp4", folder / name)
    return folder


@pytest.mark.slow
def test_weights_replaced_during_a_run_do_not_reach_its_labels(two_clips: Path, cache: Path, tmp_path: Path) -> None:
    home, out = tmp_path / "weights", tmp_path / "labels.zarr"
    shutil.copytree(cache, home)
    config = settings(home, embeddings="dinov2")
    label_folder(two_clips, tmp_path / "undisturbed.zarr", config)
    with LabelRun(two_clips, out, config) as run:
        first, second = run.todo
        run.note(work(run.job("track", first)))
        replaced = weights.add("facebook/dinov2-small", write_dinov2(tmp_path / "dinov2", seed=5), home)
        run.note(work(run.job("track", second)))
        run.fit()
        for source in run.stale:
            run.note(work(run.job("label", source)))
        assert not run.close().failed
    assert contents(out) == contents(tmp_path / "undisturbed.zarr"), "the network that was loaded made them all"
    assert dict(open_store(out).root.attrs)["weights"][0]["sha256"] != replaced.sha256
    label_folder(two_clips, out, config)
    label_folder(two_clips, tmp_path / "replaced.zarr", config)
    assert contents(out) == contents(tmp_path / "replaced.zarr"), "the next run takes the new weights, and says so"
    assert dict(open_store(out).root.attrs)["weights"][0]["sha256"] == replaced.sha256


@pytest.mark.slow
def test_a_run_is_not_made_of_old_and_new_weights(two_clips: Path, cache: Path, tmp_path: Path) -> None:
    home, out = tmp_path / "weights", tmp_path / "labels.zarr"
    shutil.copytree(cache, home)
    config = settings(home, embeddings="dinov2")
    with LabelRun(two_clips, out, config) as run:
        first, second = run.todo
        run.note(work(run.job("track", first)))
        weights.add("facebook/dinov2-small", write_dinov2(tmp_path / "dinov2", seed=5), home)
        WORKERS.end("another run")  # as if it had crashed: the next one loads what is there now
        with pytest.raises(WeightsError, match="weights were replaced during the run"):
            work(run.job("track", second))
    summary = label_folder(two_clips, out, config)
    assert all(outcome.fps for outcome in summary.outcomes), "all are tracked with the new ones"
    label_folder(two_clips, tmp_path / "replaced.zarr", config)
    assert contents(out) == contents(tmp_path / "replaced.zarr")


def test_weights_replaced_while_they_are_loaded_are_refused(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "weights"
    shutil.copytree(cache, home)
    part = profiles.EMBEDDERS["dinov2"]

    def build(*arguments: object) -> object:
        weights.add("facebook/dinov2-small", write_dinov2(tmp_path / "dinov2", seed=5), home)
        return part.build(*arguments)

    monkeypatch.setitem(profiles.EMBEDDERS, "dinov2", replace(part, build=build))
    config = settings(home, embeddings="dinov2")
    with pytest.raises(WeightsError, match="replaced while they were loaded"):
        profiles.assemble(config, "cpu")
    monkeypatch.setitem(profiles.EMBEDDERS, "dinov2", part)
    assert profiles.assemble(config, "cpu").hashes == profiles.weight_hashes(config)


def test_every_missing_weight_is_named_with_its_licence_and_the_command(clips: Path, tmp_path: Path) -> None:
    config = settings(tmp_path / "empty", profile="foundation")
    with pytest.raises(WeightsError) as caught:
        label_folder(clips, tmp_path / "labels.zarr", config)
    for name, licence in {
        "videocutler": "CC BY-NC-SA", "facebook/dinov2-small": "Apache-2.0", "facebook/sam2.1-hiera-small": "Apache-2.0"
    }.items():  # fmt: skip
        (line,) = [line for line in str(caught.value).splitlines() if f"spectrabox weights fetch {name}" in line]
        assert licence in line
    assert not (tmp_path / "labels.zarr").exists(), "nothing is begun that cannot be done"


def test_weights_that_do_not_fit_stop_the_run_and_cost_no_labels(clips: Path, cache: Path, tmp_path: Path) -> None:
    out = tmp_path / "labels.zarr"
    label_folder(clips, out)
    broken = tmp_path / "broken.pth"
    broken.write_bytes(b"not a checkpoint")
    config = settings(cache, proposals="videocutler").model_copy(
        update={"weights": settings(cache).weights.model_copy(update={"videocutler": str(broken)})}
    )
    with pytest.raises(WeightsError, match=r"broken\.pth"):
        label_folder(clips, out, config)
    with pytest.raises(WeightsError, match="multiples of 32"):
        label_folder(
            clips, out, load_config(settings=[f"weights.folder={cache}", "sam.image_size=100"], tracker="sam2")
        )
    assert len(open_store(out)) == 1
    assert label_folder(clips, out).outcomes[0].labels is not None


def test_the_store_says_what_made_it(clips: Path, cache: Path, tmp_path: Path) -> None:
    out = tmp_path / "labels.zarr"
    label_folder(clips, out, settings(cache, embeddings="dinov2"))
    facts = dict(open_store(out).root.attrs)
    assert facts["backends"] == {"proposals": "motion", "embeddings": "dinov2", "tracker": "association"}
    assert [(one["name"], one["licence"]) for one in facts["weights"]] == [("facebook/dinov2-small", "Apache-2.0")]


def test_settings_of_backends_that_are_not_chosen_change_nothing(clips: Path, tmp_path: Path) -> None:
    out = tmp_path / "labels.zarr"
    label_folder(clips, out)
    assert label_folder(clips, out, load_config(settings=["sam.window=3", "videocutler.top=1"])).up_to_date


@pytest.mark.parametrize(
    ("choice", "device", "words"),
    [
        ({}, "cuda", "runs on the CPU"),
        ({}, "tpu", "no device 'tpu'"),
        ({"tracker": "sam2"}, "mps", "no mps device on this machine"),
    ],
)
def test_devices_are_checked_before_any_work(choice: dict[str, str], device: str, words: str) -> None:
    with pytest.raises(BackendError, match=words):
        check_backends(load_config(**choice), device)


def test_networks_work_on_one_video_at_a_time() -> None:
    assert side_by_side(load_config(profile="foundation"), 0) == 1
    assert side_by_side(load_config(profile="foundation"), 3) == 3
    assert side_by_side(LabelConfig(), 0) >= 1


def test_every_backend_has_its_settings_and_weights() -> None:
    for profile in ("embedded", "foundation", "maskcut"):
        for part in parts_of(load_config(profile=profile)):
            assert not part.settings or hasattr(LabelConfig(), part.settings)
            assert not part.weights or getattr(LabelConfig().weights, part.weights)


def test_the_embedded_profile_never_loads_torch(clips: Path, tmp_path: Path) -> None:
    code = """if True:
        import sys
        from pathlib import Path
        from labeling.config import LabelConfig
        from labeling.folder import find_videos
        from labeling.pipeline import fit_vocabulary, label_video, open_run, track_video

        videos, out = map(Path, sys.argv[1:])
        config, source = LabelConfig(), find_videos(videos).sources[0]
        store = open_run(out, videos, config)
        track_video(store, source, config)
        label_video(store, source, config, fit_vocabulary(store, [source], config))
        assert not {"torch", "transformers", "huggingface_hub"} & set(sys.modules)
    """
    subprocess.run([sys.executable, "-c", code, clips, tmp_path / "labels.zarr"], check=True)
