"""What if nobody knew the true boxes of a simulator?

`Labeled` is a dataset with the same episodes, frames, actions, states and split as a simulated one. Only its boxes
differ: they are those that our labeler finds, without being told anything, in videos of these episodes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from training.dataset_format import World
from training.reproduction.cells import Simulated

if TYPE_CHECKING:
    from labeling.config import LabelConfig
    from labeling.store import Store
    from training.manifest import PrepareConfig
    from training.prepare import Progress
    from training.sources import Report
    from training.sources.simulator import Episodes
    from training.takes import Take


@dataclass(frozen=True)
class Labeled:
    """The episodes of a simulated dataset, with labels of our own."""

    world: Simulated
    minutes: float = field(default=0.0, compare=False)

    @property
    def name(self) -> str:
        """As the simulated one, and labeled."""
        return f"{self.world.name}-labeled"

    def facts(self) -> dict[str, Any]:
        """Those of the simulated one, and all that decides labels."""
        from labeling.pipeline import settings_recipe

        return {**self.world.facts(), "labels": settings_recipe(label_settings())}

    def make(self, path: Path, workers: int = 1, progress: Progress | None = None) -> None:
        """Film the episodes, label the videos, and put these labels in the place of the true boxes."""
        from labeling.recipe import digest
        from labeling.run import label_folder
        from labeling.store import open_store
        from training.prepare import made_by, write_dataset

        if path.exists():
            return
        films, labels = path.with_suffix(f".{digest(**made_by())[:12]}.videos"), path.with_suffix(".labels")
        for other in set(path.parent.glob(f"{path.stem}.*.videos")) - {films}:
            shutil.rmtree(other)  # begun by other versions: the halves of a dataset are not to come from two
        videos = self._film(films)
        label_folder(films, labels, label_settings(), workers=workers, strict=True, device="cpu")
        manifest = self.world.manifest()
        source = Relabeled(self._episodes(self.world.size), open_store(labels), videos, manifest.settings)
        known = World(environment=self.world.environment, options=dict(self.world.options), labeled=True)
        write_dataset(source, path, self.name, manifest.split, progress, known)
        shutil.rmtree(films)
        shutil.rmtree(labels)

    def _film(self, folder: Path) -> list[str]:
        """Write the episodes as videos, those that an earlier run did not get to; the names of all."""
        from training.envs import make
        from training.envs.video import Episode, write_episode

        world = make(self.world.environment, **dict(self.world.options))
        names = []
        for number, take in enumerate(self._episodes(world.size[0]).takes(_not_expected)):
            names.append(f"{number:06}.mp4")
            if (folder / names[-1]).exists():  # a film is there as a whole or not at all
                continue
            frames = np.concatenate(list(take.pictures))
            episode = Episode(world.name, self.world.seed, world.fps, frames, take.columns["actions"][:-1], {})
            write_episode(folder / names[-1], episode)
        return names

    def _episodes(self, size: int) -> Episodes:
        from training.manifest import PrepareConfig, SimulatorSource
        from training.sources.simulator import Episodes

        manifest = self.world.manifest()
        assert isinstance(manifest.source, SimulatorSource)
        return Episodes(manifest.source, self.world.seed, PrepareConfig(size=size))


class Relabeled:
    """Episodes of a simulator as takes, with the labels of their videos."""

    def __init__(self, episodes: Episodes, store: Store, videos: list[str], config: PrepareConfig) -> None:
        from labeling.recipe import digest
        from training.sources.labels import Labels
        from training.takes import Layout

        self._episodes, self._store, self._config = episodes, store, config
        self._videos = videos
        self._labels = Labels(store, {id: [(0, store[id].frames)] for id in store.ids}, config)
        self.name = self.origin = f"{episodes.name}, labeled"
        self.frames = episodes.frames
        self.categories, self.notes = self._labels.categories, self._labels.notes
        recipes = [store[id].attributes["recipe"] for id in store.ids]
        self.recipe = digest(episodes=episodes.recipe, labels=recipes)
        extra = {"oriented": 5, "mass": 2, "state": episodes.layout.extra["state"]}
        self.layout = Layout(episodes.layout.size, episodes.layout.actions, self._labels.slots, extra)

    def takes(self, report: Report) -> Iterator[Take]:
        """One take an episode, in their order."""
        from training.sources.framing import Framing
        from training.takes import Take, checked

        for video, take in zip(self._videos, self._episodes.takes(report), strict=True):
            labels = self._store[video]
            framing = Framing(*labels.size, self._config.size, self._config.letterbox)
            columns, category, instance = self._labels.stretch(labels.tracks, 0, labels.frames, framing, video)
            columns |= {name: take.columns[name] for name in ("actions", "state")}
            labeled = Take(take.source, take.start, take.pictures, columns, category, instance)
            checked(labeled, self.layout)  # or the writer would leave it out, and other episodes be held out than there
            yield labeled


def label_settings() -> LabelConfig:
    """How videos are labeled: by the default profile. Masks are of no use here."""
    from labeling.config import LabelConfig

    return LabelConfig(store_masks=False)


def _not_expected(file: str, reason: str) -> None:
    raise AssertionError(f"{file}: {reason}")
