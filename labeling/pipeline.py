"""How does a folder of videos become a label store?

The stages in order, as functions over a store: `track_video` streams one video into class-agnostic tracks,
`fit_vocabulary` finds the categories of the whole folder, `label_video` writes one video's labels, `close_run` the
tables. Each leaves its result in the store under its recipe, so a run that was stopped goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from labeling import filters, vocabulary
from labeling.checkpoints import licence_of
from labeling.config import LabelConfig
from labeling.folder import Source
from labeling.labels import mean_embedding, track_categories, write_labels
from labeling.observations import Observations, ObservationWriter
from labeling.palette import colour_of
from labeling.profiles import assemble, names_of, parts_of, weights_of
from labeling.proposals import FrameProposals
from labeling.reacquire import Tracklet, relink
from labeling.recipe import digest
from labeling.scan import scan
from labeling.store import SCHEMA, Category, Store, StoreError, write_vocabulary
from labeling.video import Video, VideoError
from labeling.vocabulary import Vocabulary
from labeling.zarr_io import attributes, complete_group, group_at, load, update_attributes

TRACKS_VERSION = 1  # raise it when scan, proposals, embeddings or tracking give other results for the same input
LABELS_VERSION = 1  # raise it when categories, re-acquisition or filters do
REPORT_EVERY = 0.2  # seconds between two reports of progress

Progress = Callable[[int, int], None]  # frames done, frames expected


@dataclass(frozen=True)
class Tracked:
    """What `track_video` did."""

    frames: int
    seconds: float


@dataclass(frozen=True)
class Labeled:
    """What `label_video` found."""

    frames: int
    tracks: int
    categories: int
    dropped: int


def open_run(out: Path, videos: Path, config: LabelConfig) -> Store:
    """Open or create the store of a run, and note what the run is about."""
    out.parent.mkdir(parents=True, exist_ok=True)
    for left_over in [*out.glob("*.partial"), *out.glob("*/*.partial")]:  # of a run that was killed while it wrote
        left_over.unlink()
    store = Store(out, mode="a")
    recorded = store.root.attrs.get("schema")
    if recorded not in (None, SCHEMA):
        raise StoreError(f"{out} has schema {recorded}, this version writes {SCHEMA}. Choose another --out.")
    owner = store.root.attrs.get("videos")
    if owner is not None and Path(str(owner)) != videos and Path(str(owner)).exists():
        raise StoreError(f"{out} holds the labels of {owner}, not of {videos}. Choose another --out.")
    facts = {
        "schema": SCHEMA, "profile": config.profile, "recipe": settings_recipe(config), "videos": str(videos),
        "created_by": f"spectrabox {version('spectrabox')}",
        "backends": dict(zip(("proposals", "embeddings", "tracker"), names_of(config), strict=True)),
        "weights": [
            {"name": found.name, "sha256": found.sha256, "licence": licence_of(found.name)}
            for found in weights_of(config).values()
        ],
    }  # fmt: skip
    update_attributes(store.root, facts)
    for name in ("videos", "stages"):
        if name not in store.root:
            store.root.create_group(name)
    return store


def settings_recipe(config: LabelConfig) -> str:
    """Hash of the settings and code versions, whatever the video."""
    settings = config.model_dump(mode="json", exclude={"weights"})
    return digest(tracks=TRACKS_VERSION, labels=LABELS_VERSION, settings=settings)


def track_recipe(config: LabelConfig, sha256: str, hashes: dict[str, str]) -> str:
    """What decides the class-agnostic tracks of a video, made with weights of these `hashes`."""
    settings = _settings(config, "keep_static", "longest_side", "scan", *[part.settings for part in parts_of(config)])
    return digest(
        stage="tracks", version=TRACKS_VERSION, backends=names_of(config), settings=settings,
        weights=hashes, video=sha256,
    )  # fmt: skip


def label_recipe(config: LabelConfig, tracks: str, words: str) -> str:
    """What decides the labels of a video whose tracks and vocabulary have these hashes."""
    settings = _settings(config, "keep_static", "store_masks", "reacquire", "filters")
    return digest(stage="labels", version=LABELS_VERSION, settings=settings, tracks=tracks, vocabulary=words)


def _settings(config: LabelConfig, *names: str) -> dict[str, Any]:
    return config.model_dump(mode="json", include=set(names))


def tracks_are_current(
    store: Store, source: Source, config: LabelConfig, hashes: dict[str, str], of_file: bool = True
) -> bool:
    """Whether the video's tracks in the store are those that this run would make with weights of these `hashes`.

    With `of_file` false, the file is taken to be what it was.
    """
    group = complete_group(store.root, f"stages/{source.id}")
    if group is None:
        return False
    sha256 = str(group.attrs["sha256"])
    if of_file and group.attrs["fingerprint"] != (now := fingerprint(source.path)):
        sha256 = Video(source.path).sha256()
        if group.attrs["sha256"] == sha256:
            update_attributes(group, {"fingerprint": now})
    return bool(group.attrs["recipe"] == track_recipe(config, sha256, hashes))


def has_labels_of(store: Store, source: Source) -> bool:
    """Whether the store's labels of a video are of the file that is there now, whatever settings made them."""
    group = complete_group(store.root, f"videos/{source.id}")
    try:
        return group is not None and group.attrs.get("sha256") == Video(source.path).sha256()
    except (VideoError, OSError):
        return False


def tracked_sources(store: Store, folder: Path) -> list[Source]:
    """All videos that the store has tracks of, by their id."""
    stages = group_at(store.root, "stages")
    found = [(name, str(group.attrs["source"])) for name, group in stages.groups() if group.attrs.get("complete")]
    return sorted(Source(name, relative, folder / relative) for name, relative in found)


def track_video(
    store: Store, source: Source, config: LabelConfig, device: str = "auto", progress: Progress | None = None
) -> Tracked:
    """Stream a video through scan, proposals, embeddings and tracker into `stages/<id>`."""
    began = time.monotonic()
    before = fingerprint(source.path)
    passed = _Progress(progress)
    video = Video(source.path, config.longest_side, watch=passed.handed_out)
    passed.expected = video.expected_frames
    sha256 = video.sha256()
    group = store.root.create_group(f"stages/{source.id}", overwrite=True)
    writer = ObservationWriter(group, video.scale, video.working_height, video.working_width)
    asked = time.monotonic()
    backends = assemble(config, device)
    began += time.monotonic() - asked  # networks are loaded once for all videos: that is not the first one's speed
    proposed = backends.proposer.propose(video, scan(video, config.scan))
    for seen in backends.tracker.track(passed.timed(proposed), backends.embedder, video):
        writer.add(seen)
    times = passed.times
    if progress:
        progress(len(times), len(times))
    if fingerprint(source.path) != before:
        raise VideoError(f"{source.path} changed while it was read. Run again once it is complete.")
    writer.finish(np.asarray(times))
    update_attributes(group, {
        "source": source.relative, "sha256": sha256, "fingerprint": before, "fps": video.fps, "frames": len(times),
        "height": video.height, "width": video.width, "scale": video.scale,
        "mask_size": [video.working_height, video.working_width], "cuts": passed.cuts,
        "recipe": track_recipe(config, sha256, backends.hashes), "complete": True,
    })  # fmt: skip
    return Tracked(len(times), time.monotonic() - began)


def fingerprint(path: Path) -> str:
    """Sizes and times of a file, or of the files of a folder: if they are the same, the content is taken to be."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    facts = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return digest(files=facts)


def known_vocabulary(store: Store, config: LabelConfig, hashes: dict[str, str]) -> Vocabulary | None:
    """The store's vocabulary, if it has categories and they are of the embeddings that this run makes."""
    known = store.vocabulary
    if known is None or not len(known.prototypes):
        return None
    return known if store.root["vocabulary"].attrs["recipe"] == _vocabulary_recipe(config, hashes) else None


def fit_vocabulary(
    store: Store, sources: Iterable[Source], config: LabelConfig, refit: bool = False,
    hashes: dict[str, str] | None = None,
) -> Vocabulary:  # fmt: skip
    """The store's vocabulary, fitted to the tracks of `sources` if there is none yet or `refit` asks for it.

    A vocabulary made from other kinds of embeddings is fitted anew, too; `hashes` are those of this run's weights.
    """
    known = known_vocabulary(store, config, hashes or {})
    if known is not None and not refit:
        return known
    recipe = _vocabulary_recipe(config, hashes or {})
    fitted = vocabulary.discover(_sample(store, sorted(sources), config.vocabulary.sample), config.vocabulary)
    write_vocabulary(store.root, fitted, recipe)
    return fitted


def _vocabulary_recipe(config: LabelConfig, hashes: dict[str, str]) -> str:
    embeddings, embedder = names_of(config)[1], parts_of(config)[1]
    return digest(
        stage="vocabulary", version=vocabulary.VERSION, tracks=TRACKS_VERSION, embeddings=embeddings,
        settings=_settings(config, "vocabulary", embedder.settings), weights=hashes.get(embedder.weights, ""),
    )  # fmt: skip


def labels_are_current(store: Store, source: Source, config: LabelConfig, words: Vocabulary) -> bool:
    """Whether the video's labels in the store are those that this run would make."""
    group = complete_group(store.root, f"videos/{source.id}")
    tracks = str(group_at(store.root, f"stages/{source.id}").attrs["recipe"])
    return group is not None and group.attrs["recipe"] == label_recipe(config, tracks, words.fingerprint)


def label_video(store: Store, source: Source, config: LabelConfig, words: Vocabulary) -> Labeled:
    """Categories, re-acquired identities and filters for one tracked video, written to `videos/<id>`."""
    stage = group_at(store.root, f"stages/{source.id}")
    facts = attributes(stage)
    seen = Observations.read(stage)
    size = int(facts["height"]), int(facts["width"])
    category = track_categories(seen, words.assign)
    instance = relink(_tracklets(seen, category, size), config.reacquire) if len(category) else np.zeros(0, int)
    instance = filters.combine(seen, instance, config.filters)
    verdicts = filters.judge(seen, instance, size, config.keep_static, config.filters)
    group = store.root.create_group(f"videos/{source.id}", overwrite=True)
    by_track = dict(zip(seen.tracks.tolist(), category.tolist(), strict=True))
    height, width = facts["mask_size"]
    write_labels(group, seen, verdicts, by_track, (height, width), float(facts["scale"]), config.store_masks)
    copied = {name: facts[name] for name in ("source", "sha256", "fps", "frames", "height", "width", "cuts")}
    dropped = [
        {"instance": v.instance, "reason": v.reason, "detail": v.detail, "frames": v.frames}
        for v in verdicts
        if v.reason
    ]
    recipe = label_recipe(config, str(facts["recipe"]), words.fingerprint)
    update_attributes(group, {**copied, "dropped": dropped, "recipe": recipe, "complete": True})
    return count_labels(store, source)


def count_labels(store: Store, source: Source) -> Labeled:
    """Figures of a labeled video, for the summary."""
    group = group_at(store.root, f"videos/{source.id}")
    facts, kinds = attributes(group), load(group, "category")
    return Labeled(int(facts["frames"]), len(kinds), len(np.unique(kinds)), len(facts["dropped"]))


def forget_video(store: Store, id: str) -> None:
    """Remove what the store holds of a video that can no longer be read, or is gone."""
    for name in (f"videos/{id}", f"stages/{id}"):
        if name in store.root:
            del store.root[name]


def orphans(store: Store, folder: Path) -> dict[str, str]:
    """Ids and paths below `folder` of the videos that have labels and are no longer there."""
    labeled = Store(store.path)
    return {id: source for id in labeled if not (folder / (source := labeled[id].source)).exists()}


def close_run(store: Store, failures: dict[str, str]) -> int:
    """Write the tables that describe the whole store, categories and failures; returns how many kinds have tracks."""
    sizes: dict[int, int] = {}
    ids = Store(store.path).ids
    for id in ids:
        for kind in load(store.root, f"videos/{id}/category").tolist():
            sizes[kind] = sizes.get(kind, 0) + 1
    words = store.vocabulary
    names = {row.id: row.name for row in store.categories}
    table = [
        asdict(Category(k, names.get(k, f"object-{k + 1}"), colour_of(k), sizes.get(k, 0), sizes.get(k, 0) > 0))
        for k in range(len(words.prototypes) if words else 0)
    ]
    facts = {"categories": table, "failures": dict(sorted(failures.items()))}
    update_attributes(store.root, facts)
    return sum(row["kept"] for row in table)


class _Progress:
    """Counts the frames that were scanned and those that were tracked, and reports now and then."""

    def __init__(self, report: Progress | None) -> None:
        self._report, self._handed, self._reported = report, 0, 0.0
        self.expected = 0
        self.times: list[float] = []
        self.cuts: list[int] = []  # frames with which a new scene begins, but for the first

    def handed_out(self) -> None:
        """The video handed out one more frame, for the first time or again."""
        self._handed += 1
        if self._report and time.monotonic() - self._reported > REPORT_EVERY:
            scanned = min(self._handed, self.expected or self._handed)
            self._report((scanned + len(self.times)) // 2, self.expected)
            self._reported = time.monotonic()

    def timed(self, proposed: Iterator[FrameProposals]) -> Iterator[FrameProposals]:
        """Pass frames on and note their times and the cuts."""
        for item in proposed:
            if item.cut and self.times:
                self.cuts.append(len(self.times))
            self.times.append(item.frame.time)
            yield item


def _sample(store: Store, sources: Iterable[Source], most: int) -> np.ndarray:
    """Embeddings of all tracks, in the order of video ids, thinned evenly to at most `most` rows."""
    parts = []
    for source in sources:
        stage = complete_group(store.root, f"stages/{source.id}")
        if stage is not None and len(vectors := load(stage, "embedding")):
            parts.append(vectors)
    if not parts:
        return np.zeros((0, 1), np.float32)
    rows = np.concatenate(parts)
    return rows[np.linspace(0, len(rows) - 1, min(most, len(rows))).round().astype(int)]


def _tracklets(seen: Observations, category: np.ndarray, size: tuple[int, int]) -> list[Tracklet]:
    """What re-acquisition needs to know of each track."""
    return [
        Tracklet.of(
            frames=seen.columns["frame"][rows],
            boxes=seen.columns["box"][rows],
            category=int(kind),
            embedding=mean_embedding(seen, int(track)),
            size=size,
        )
        for track, kind in zip(seen.tracks, category, strict=True)
        for rows in [seen.rows(int(track))]
    ]
