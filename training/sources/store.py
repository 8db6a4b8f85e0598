"""Labeled videos, with actions beside them if there are any.

Joins the tracks of a label store with the frames of its videos and their actions. A scene cut ends an episode. Videos
that have changed, whose actions do not fit or whose shape is another than that of the rest are left out and named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from labeling.actions import actions_beside, aligned, read_actions
from labeling.folder import inside
from labeling.places import Place, fetched, place
from labeling.recipe import digest
from labeling.store import StoreError, VideoLabels, open_store
from labeling.video import Video, VideoError
from training.dataset_format import DatasetError
from training.manifest import PrepareConfig
from training.sources import FEW, Report, longest_episode, pieces
from training.sources.hashing import content_hash
from training.sources.labels import Labels, Stretch
from training.sources.reading import FrameReader, refuse_other_video
from training.takes import Layout, Take, checked

VERSION = 2  # raise it when the same labels give another dataset
SAME_SHAPE = 0.03  # by how much aspects may differ


class LabeledVideos:
    """The videos of a label store as takes."""

    def __init__(self, path: Place, config: PrepareConfig, videos: str | Place | None = None) -> None:
        try:
            self._store = open_store(path)
        except StoreError as error:
            raise DatasetError(str(error)) from error
        self._config = config
        self._folder = place(videos) if videos else self._store.videos_folder
        self.name, self.origin = path.stem, str(path.resolve() if isinstance(path, Path) else path)
        ids = self._store.ids
        if not ids:
            raise DatasetError(f"{path} holds no labeled video.")
        self._videos = [self._store[id] for id in ids]
        self.frames = sum(video.frames for video in self._videos)
        self._longest = longest_episode(config.episode_frames, len(ids), self.frames)
        self._labels = Labels(self._store, {video.id: self._planned(video) for video in self._videos}, config)
        self.categories = self._labels.categories
        self.notes = list(self._labels.notes)
        if self._longest and not config.episode_frames:
            self.notes.append(
                f"Fewer than {FEW} videos: they are cut into episodes of at most {self._longest} frames, so that some "
                "can be held out."
            )
        files = {video.source: self._actions_file(video) for video in self._videos}
        self._actions = _usual_size(files)
        self._aspect = _usual_aspect(self._videos)
        size = (config.size, config.size)
        self.layout = Layout(size, self._actions, self._labels.slots, {"oriented": 5, "mass": 2})
        self.recipe = digest(
            kind="videos", version=VERSION, settings=config.model_dump(mode="json"),
            videos=[[video.id, video.attributes["sha256"], video.attributes["recipe"]] for video in self._videos],
            names=[row.name for row in self._store.categories],
            actions={name: _hash(file) if file else "" for name, file in files.items()},
        )  # fmt: skip

    def takes(self, report: Report) -> Iterator[Take]:
        """The takes of each video between its scene cuts."""
        for reason_of, reason in self._store.failures.items():
            report(reason_of, f"It was not labeled: {reason}")
        for labels in self._videos:
            try:
                yield from self._takes_of(self._store[labels.id])  # opened anew: its tracks are not held for good
            except (DatasetError, VideoError) as error:
                report(labels.source, str(error))
        self.notes += self._labels.crowds()

    def _takes_of(self, labels: VideoLabels) -> Iterator[Take]:
        path = inside(self._folder, labels.source)
        if not path.exists():
            raise VideoError(f"{path} is not there. Say where the videos are with --videos.")
        with fetched(path) as file:
            yield from self._takes_from(file, labels)

    def _takes_from(self, path: Path, labels: VideoLabels) -> Iterator[Take]:
        reader = FrameReader(path, self._config.size, self._config.letterbox)
        refuse_other_video(reader.video, str(labels.attributes["sha256"]))
        self._refuse_other_shape(labels)
        actions = self._actions_of(labels)
        tracks = labels.tracks
        # A fault anywhere in a video is a reason to leave it out as a whole: it is found before anything is written.
        columns, category, instance = self._labels.objects(tracks, 0, labels.frames, reader.framing)
        whole = Take(labels.source, 0, (), columns | {"actions": actions}, category, instance)
        checked(whole, Layout(self.layout.size, self._actions, len(category), self.layout.extra))
        for start, stop in self._episodes(labels, scene_cuts(labels, path)):
            columns, category, instance = self._labels.stretch(tracks, start, stop, reader.framing, labels.source)
            columns["actions"] = actions[start:stop]
            yield Take(labels.source, start, reader.blocks(start, stop), columns, category, instance)

    def _planned(self, labels: VideoLabels) -> list[Stretch]:
        """The episodes of a video; of a store of version 1, which knows no cuts, the whole: they show no more."""
        cuts = labels.attributes.get("cuts")
        return [(0, labels.frames)] if cuts is None else self._episodes(labels, cuts)

    def _episodes(self, labels: VideoLabels, cuts: list[int]) -> list[Stretch]:
        edges = [0, *cuts, labels.frames]
        return [piece for begin, end in pairwise(edges) for piece in pieces(begin, end, self._longest)]

    def _actions_file(self, labels: VideoLabels) -> Place | None:
        if not self._config.use_actions:
            return None
        try:
            return actions_beside(inside(self._folder, labels.source))
        except VideoError:  # several, or outside: reported when it is the video's turn
            return None

    def _actions_of(self, labels: VideoLabels) -> np.ndarray:
        path = inside(self._folder, labels.source)
        file = actions_beside(path) if self._config.use_actions else None
        if file is None:
            if self._actions:
                raise DatasetError(f"{path} has no actions beside it, other videos have. Add them or move it away.")
            return np.zeros((labels.frames, 0), np.float32)
        actions = read_actions(file)
        if actions.shape[1] != self._actions:
            raise DatasetError(f"{file} has {actions.shape[1]} numbers an action, most others have {self._actions}.")
        return aligned(actions, labels.frames, file)

    def _refuse_other_shape(self, labels: VideoLabels) -> None:
        height, width = labels.size
        if not self._config.letterbox and abs(width / height / self._aspect - 1) > SAME_SHAPE:
            raise DatasetError(
                f"{labels.source} has {width}x{height} pixels, another shape than most videos here: stretched to one "
                "size, things in it would look different. Prepare it apart or with --letterbox."
            )


def _hash(file: Place) -> str:
    with fetched(file) as path:
        return content_hash(path)


def scene_cuts(labels: VideoLabels, path: Path) -> list[int]:
    """Frames at which a new scene begins, without the first: as stored with the labels, or found again."""
    if "cuts" in labels.attributes:
        return [int(frame) for frame in labels.attributes["cuts"]]
    from labeling.scan import scan

    return [shot.start for shot in scan(Video(path)) if shot.cut and shot.start]


def _usual_size(files: dict[str, Place | None]) -> int:
    """Numbers in an action, as most files have it; files that cannot be read are reported when it is their turn."""
    sizes: Counter[int] = Counter()
    for file in files.values():
        if file is not None:
            try:
                sizes[read_actions(file).shape[1]] += 1
            except VideoError:
                continue
    return sizes.most_common(1)[0][0] if sizes else 0


def _usual_aspect(videos: list[VideoLabels]) -> float:
    """Width by height, as most videos have it."""
    shapes = Counter(round(video.size[1] / video.size[0], 2) for video in videos)
    return shapes.most_common(1)[0][0]
