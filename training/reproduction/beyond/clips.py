"""What can be learned from somebody's real clips?

`Clips` is a folder of videos as a dataset without actions: each video is an episode, and every third one, say, is held
out. Boxes are those that our labeler finds, to train with, or the true ones of `NAME.json` beside `NAME.mp4`, to judge
by; `spectrabox simulate --videos` writes such files too. Frames and held-out videos are the same in both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock

from training.dataset_format import DatasetCategory, DatasetError
from training.manifest import PrepareConfig, Split
from training.reproduction.beyond.labeled import label_settings

if TYPE_CHECKING:
    from labeling.folder import Source as Video
    from labeling.store import Store
    from training.prepare import Progress
    from training.sources import Report
    from training.sources.framing import Framing
    from training.takes import Take

OBJECT = "object"  # the one kind that true boxes have
HARDLY = 0.1  # visible share below which a true box does not count
SHORT = 12  # digits of a hash


class Fold(Split, frozen=True, extra="forbid"):
    """Every `of`-th episode is held out, from number `number` on: with all folds, each is once."""

    number: int
    of: int

    def choose(self, episodes: int) -> np.ndarray:
        """Which of so many episodes are held out, (episodes,) bool."""
        return np.arange(episodes) % self.of == self.number


@dataclass(frozen=True)
class Clips:
    """The videos of a folder, one episode each."""

    folder: str
    content: str  # `fingerprint` of the folder
    size: int  # of the frames, which keep their aspect
    fold: int
    folds: int
    true: bool  # true boxes in the place of our labels
    minutes: float = field(default=0.0, compare=False)

    @property
    def name(self) -> str:
        """What boxes it has, and which videos are held out."""
        return f"clips-{'true' if self.true else 'labeled'}-{self.fold}"

    def facts(self) -> dict[str, Any]:
        """Names and contents of videos and true boxes, and all that decides labels."""
        from labeling.pipeline import settings_recipe

        decides = {"content": self.content, "size": self.size, "fold": self.fold, "of": self.folds}
        return {**decides, "boxes": "true" if self.true else settings_recipe(label_settings())}

    def make(self, path: Path, workers: int = 1, progress: Progress | None = None) -> None:
        """Label the videos if need be, and write the dataset."""
        from training.prepare import write_dataset

        if path.exists():
            return
        if fingerprint(self.folder) != self.content:
            raise DatasetError(f"{self.folder} has changed since the table was begun. Run the same command again.")
        store = None if self.true else self._labeled(path.parent, workers)
        config = PrepareConfig(size=self.size, letterbox=True, use_actions=False)
        split = Fold(number=self.fold, of=self.folds)
        write_dataset(Filmed(self, config, store), path, self.name, split, progress)

    def _labeled(self, home: Path, workers: int) -> Store:
        """The labels of all videos, which the datasets of all folds share."""
        from labeling.run import label_folder
        from labeling.store import open_store

        place = home / f"clips-{self.content[:SHORT]}.labels"
        with FileLock(place.with_suffix(".lock")):
            label_folder(self.folder, place, label_settings(), workers=workers, device="cpu")
        return open_store(place)


class Filmed:
    """Videos as takes, with labels or, without a store, with true boxes."""

    def __init__(self, clips: Clips, config: PrepareConfig, store: Store | None) -> None:
        from labeling.recipe import digest
        from training.sources.labels import Labels
        from training.takes import Layout

        self._config, self._store, self._videos = config, store, videos_in(clips.folder)
        self.name, self.origin, self.notes, self.frames = clips.name, clips.folder, list[str](), 0
        if store is None:
            self._labels = None
            self.categories = [DatasetCategory(0, OBJECT, (OBJECT,), 0)]
            slots = max((len(true_boxes(video.file)) for video in self._videos), default=0)
        else:
            self._labels = Labels(store, {id: [(0, store[id].frames)] for id in store.ids}, config)
            self.categories, self.notes = self._labels.categories, self._labels.notes
            slots = self._labels.slots
        self.layout = Layout((config.size, config.size), 0, slots)
        recipes = [str(store[id].attributes["recipe"]) for id in store.ids] if store else []
        self.recipe = digest(content=clips.content, settings=config.model_dump(mode="json"), labels=recipes)

    def takes(self, report: Report) -> Iterator[Take]:
        """One take a video, so that both kinds of boxes have the same episodes; DatasetError if boxes do not fit."""
        from training.sources.reading import FrameReader
        from training.takes import Take, checked

        for video in self._videos:
            reader = FrameReader(video.file, self._config.size, self._config.letterbox)
            frames = sum(1 for _ in reader.video.frames())  # decoded twice, for no file says for sure how many it has
            boxes, category, instance = self._boxes(video, reader.framing, frames)
            columns = {"boxes": boxes, "actions": np.zeros((len(boxes), 0), np.float32)}
            take = Take(video.relative, 0, reader.blocks(0, frames), columns, category, instance)
            if len(boxes) != frames:
                raise DatasetError(f"{video.path} has {frames} frames, but boxes of {len(boxes)}.")
            checked(take, self.layout)  # or the writer would leave it out, of one dataset alone
            yield take

    def _boxes(self, video: Video, framing: Framing, frames: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Boxes (T, n, 4) in shares of the picture, categories and instances (n,) of a video."""
        nothing = np.zeros((frames, 0, 4)), np.zeros(0, np.int32), np.zeros(0, np.int32)
        if self._labels is None:
            true = true_boxes(video.file)
            if not true:
                return nothing
            edge = [framing.width, framing.height] * 2
            boxes = framing.boxes(np.stack(true, axis=1).clip(0, edge))
            return boxes, np.zeros(len(true), np.int32), np.arange(len(true), dtype=np.int32)
        if self._store is None or video.id not in self._store.ids:  # it could not be labeled
            return nothing
        tracks = self._store[video.id].tracks
        columns, category, instance = self._labels.stretch(tracks, 0, len(tracks.time), framing, video.relative)
        return columns["boxes"], category, instance


def videos_in(folder: str) -> list[Video]:
    """All videos of a folder in a fixed order; DatasetError if there is none."""
    from labeling.folder import find_videos

    try:
        found = find_videos(folder).sources
    except FileNotFoundError as error:
        raise DatasetError(str(error)) from error
    if not found:
        raise DatasetError(f"{folder} holds no videos: give a folder with NAME.mp4 and NAME.json for each.")
    return sorted(found, key=lambda video: video.relative)


def true_boxes(video: Path) -> list[np.ndarray]:
    """The true boxes (T, 4) of each object that should be found in a video, NaN where it is not in view.

    Parts of other objects and what always stands still (`role`) do not count. Without a JSON beside it there are none.
    """
    file = video.with_suffix(".json")
    if not file.is_file():
        return []
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        objects = [one for one in told["objects"] if one.get("role", "main") == "main"]
        found = [_boxes(one["boxes"], one.get("visibility")) for one in objects]
        if len({len(boxes) for boxes in found}) > 1:
            raise ValueError("objects have boxes for different numbers of frames")
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise DatasetError(f"{file} does not say true boxes as docs/beyond.md describes: {error!r}") from error
    return [boxes for boxes in found if np.isfinite(boxes).any()]


def _boxes(rows: list[Any], visible: list[float] | None) -> np.ndarray:
    boxes = np.array([[np.nan] * 4 if row is None else row for row in rows], float).reshape(-1, 4)
    if visible is not None:
        boxes[np.array(visible, float) < HARDLY] = np.nan
    return boxes


def fingerprint(folder: str) -> str:
    """A hash of the videos of a folder and the true boxes beside them."""
    from labeling.recipe import digest
    from training.sources.hashing import content_hash

    files = {}
    for video in videos_in(folder):
        told = video.file.with_suffix(".json")
        files[video.relative] = [content_hash(file) for file in (video.file, told) if file.exists()]
    return digest(files=files)
