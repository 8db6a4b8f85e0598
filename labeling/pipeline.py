"""How does a folder of videos become a label store?

The stages in order, as functions over a store: `track_video` streams one video into class-agnostic tracks,
`fit_vocabulary` finds the categories of the whole folder, `label_video` writes one video's labels, `close_run` the
tables. Each leaves its result in the store under its recipe, so a run that was stopped goes on where it was.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import zarr

from labeling import filters, vocabulary
from labeling.categories import category_table, list_categories
from labeling.checkpoints import licence_of
from labeling.config import LabelConfig
from labeling.facts import stage_facts
from labeling.folder import Source, is_gone
from labeling.frame_progress import FrameProgress, Progress
from labeling.labels import mean_embedding, track_categories, write_labels
from labeling.migrations import bring_up_to_date
from labeling.observations import Observations, ObservationWriter
from labeling.places import Place, fetched, make_room, place, state_of, sweep
from labeling.problems import Unreadable
from labeling.profiles import assemble, names_of, parts_of, weights_of
from labeling.reacquire import Tracklet, relink
from labeling.recipe import digest
from labeling.scan import scan
from labeling.store import SCHEMA, Store, StoreError
from labeling.stored_vocabulary import finish_vocabulary, lineage, write_vocabulary
from labeling.tally import Labeled
from labeling.video import Video, VideoError, sha256_of
from labeling.vocabulary import Vocabulary
from labeling.zarr_io import (
    array_at,
    attributes,
    complete_group,
    fresh_group,
    group_at,
    holds,
    load,
    remove_group,
    update_attributes,
)

TRACKS_VERSION = 2  # raise it when scan, proposals, embeddings or tracking give other results for the same input
LABELS_VERSION = 2  # raise it when categories, re-acquisition or filters do


@dataclass(frozen=True)
class Tracked:
    """What `track_video` did."""

    frames: int
    seconds: float


def open_run(out: Place, videos: Place, config: LabelConfig) -> Store:
    """Open or create the store of a run, and note what the run is about."""
    make_room(out)
    store = Store(out, mode="a")
    if "schema" in store.root.attrs or "kind" in store.root.attrs:
        bring_up_to_date(store.root, out)
    owner = store.root.attrs.get("videos")
    if owner is not None and (other := place(str(owner))) != videos and other.exists():
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
    if "categories" not in store.root.attrs:
        facts |= {"categories": [], "failures": {}}
    update_attributes(store.root, facts)
    for name in ("videos", "stages"):
        if not holds(store.root, name):
            store.root.create_group(name)
    finish_vocabulary(store.root)
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
    facts = attributes(group)  # of which any may be missing if the store is damaged: then the video is tracked anew
    sha256 = str(facts.get("sha256"))
    if of_file and facts.get("fingerprint") != (now := fingerprint(source.path)):
        with fetched(source.path) as path:
            sha256 = sha256_of(path)
        if facts.get("sha256") == sha256:
            update_attributes(group, {"fingerprint": now})
    return bool(facts.get("recipe") == track_recipe(config, sha256, hashes))


def has_labels_of(store: Store, source: Source) -> bool:
    """Whether the store's labels of a video are of the file that is there now, whatever settings made them.

    A file that cannot be read right now, as on a network disk that is half away, may well be the one that was labeled.
    """
    group = complete_group(store.root, f"videos/{source.id}")
    if group is None:
        return False
    try:
        with fetched(source.path) as path:
            return bool(group.attrs.get("sha256") == sha256_of(path))
    except (Unreadable, OSError):
        return True
    except VideoError:
        return False


def tracked_sources(store: Store, folder: Place) -> list[Source]:
    """All videos that the store has tracks of, by their id."""
    stages = group_at(store.root, "stages")
    found = [(name, str(group.attrs["source"])) for name, group in stages.groups() if _is_tracked(group)]
    return sorted(Source(name, relative, folder / relative) for name, relative in found)


def _is_tracked(group: zarr.Group) -> bool:
    return group.attrs.get("complete") is True and isinstance(group.attrs.get("source"), str)


def track_video(
    store: Store, source: Source, config: LabelConfig, device: str = "auto", progress: Progress | None = None
) -> Tracked:
    """Stream a video through scan, proposals, embeddings and tracker into `stages/<id>`."""
    began = time.monotonic()
    before = fingerprint(source.path)
    with fetched(source.path, watch=(lambda: progress(0, 0)) if progress else None) as path:
        passed = FrameProgress(progress)
        video = Video(path, config.longest_side, watch=passed.handed_out)
        passed.expected = video.expected_frames
        sha256 = video.sha256(passed.going_on)
        group = fresh_group(store.root, f"stages/{source.id}")
        writer = ObservationWriter(group, video.scales, video.working_height, video.working_width)
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


def fingerprint(source: Place) -> str:
    """What is known of a video without reading it: if that is the same, the content is taken to be."""
    return digest(files=state_of(source))


def known_vocabulary(store: Store, config: LabelConfig, hashes: dict[str, str]) -> Vocabulary | None:
    """The store's vocabulary, if it has categories and they are of the embeddings that this run makes."""
    known = store.vocabulary
    if known is None or not known.alive.any():
        return None
    return known if store.root["vocabulary"].attrs.get("recipe") == _vocabulary_recipe(config, hashes) else None


def fit_vocabulary(
    store: Store, sources: Iterable[Source], config: LabelConfig, refit: bool = False,
    hashes: dict[str, str] | None = None,
) -> Vocabulary:  # fmt: skip
    """The store's vocabulary, fitted to the tracks of `sources` if there is none yet or `refit` asks for it.

    A vocabulary made from other kinds of embeddings is fitted anew, too; `hashes` are those of this run's weights.
    With `refit`, categories that persist keep their ids; else ids do not depend on what the store has held before.
    """
    known = known_vocabulary(store, config, hashes or {})
    if known is not None and not refit:
        return known
    recipe = _vocabulary_recipe(config, hashes or {})
    fitted = vocabulary.discover(_sample(store, sorted(sources), config.vocabulary.sample), config.vocabulary)
    old = store.vocabulary if refit else None
    words = vocabulary.keep_ids(old, fitted, config.vocabulary.merge_distance) if old is not None else fitted
    anew = words is fitted
    list_categories(store, words, anew)
    # Edits of a reviewer hold as long as the lineage does; a store that nobody has edited shows no trace of its past.
    edited = not anew and holds(store.root, "review")
    write_vocabulary(store.root, words, recipe, ids_of=lineage(store.root) if edited else "")
    return words


def _vocabulary_recipe(config: LabelConfig, hashes: dict[str, str]) -> str:
    embeddings, embedder = names_of(config)[1], parts_of(config)[1]
    return digest(
        stage="vocabulary", version=vocabulary.VERSION, tracks=TRACKS_VERSION, embeddings=embeddings,
        settings=_settings(config, "vocabulary", embedder.settings), weights=hashes.get(embedder.weights, ""),
    )  # fmt: skip


def labels_are_current(store: Store, source: Source, config: LabelConfig, words: Vocabulary) -> bool:
    """Whether the video's labels in the store are those that this run would make."""
    group = complete_group(store.root, f"videos/{source.id}")
    tracks = str(group_at(store.root, f"stages/{source.id}").attrs.get("recipe"))
    return group is not None and group.attrs.get("recipe") == label_recipe(config, tracks, words.fingerprint)


def label_video(
    store: Store, source: Source, config: LabelConfig, words: Vocabulary, watch: Callable[[], None] | None = None
) -> None:
    """Categories, re-acquired identities and filters for one tracked video, written to `videos/<id>`.

    `watch` is called now and then. VideoError if what was tracked is damaged: then it goes, and the next run tracks the
    video anew.
    """
    try:
        _label_video(store, source, config, words, watch)
    except StoreError as error:
        remove_group(store.root, f"stages/{source.id}")
        raise VideoError(
            f"{source.path}: what the store held of its tracks was damaged and is removed. Run again to label it anew."
        ) from error


def _label_video(
    store: Store, source: Source, config: LabelConfig, words: Vocabulary, watch: Callable[[], None] | None
) -> None:
    stage = group_at(store.root, f"stages/{source.id}")
    facts = stage_facts(stage)
    seen = Observations.read(stage)
    if len(seen.embedding) and seen.embedding.shape[1:] != words.mean.shape:
        raise StoreError(f"{store.path}: stages/{source.id} is damaged (its embeddings are not those of a category).")
    size = int(facts["height"]), int(facts["width"])
    category = track_categories(seen, words.assign)
    instance = relink(_tracklets(seen, category, size), config.reacquire) if len(category) else np.zeros(0, int)
    instance = filters.combine(seen, instance, config.filters)
    verdicts = filters.judge(seen, instance, size, config.keep_static, config.filters)
    group = fresh_group(store.root, f"videos/{source.id}")
    by_track = dict(zip(seen.tracks.tolist(), category.tolist(), strict=True))
    height, width = facts["mask_size"]
    scale = size[1] / width, size[0] / height
    write_labels(group, seen, verdicts, by_track, (height, width), scale, config.store_masks, watch)
    known = ("source", "sha256", "fps", "frames", "height", "width", "cuts")
    copied = {name: facts[name] for name in known if name in facts}  # cuts are not known in stores of version 1
    dropped = [
        {"instance": v.instance, "reason": v.reason, "detail": v.detail, "frames": v.frames}
        for v in verdicts
        if v.reason
    ]
    recipe = label_recipe(config, str(facts["recipe"]), words.fingerprint)
    update_attributes(group, {**copied, "dropped": dropped, "recipe": recipe, "complete": True})


def forget_video(store: Store, id: str) -> None:
    """Remove what the store holds of a video that can no longer be read, or is gone."""
    for name in (f"videos/{id}", f"stages/{id}"):
        remove_group(store.root, name)


def forget_labels(store: Store, id: str) -> None:
    """Remove a video's labels; its tracks stay, to be labeled again."""
    remove_group(store.root, f"videos/{id}")


def forget_unfinished(store: Store, name: str) -> None:
    """Remove a group that was not written to its end."""
    if holds(store.root, name) and complete_group(store.root, name) is None:
        del store.root[name]


def orphans(labeled: Mapping[str, Labeled], folder: Place) -> dict[str, str]:
    """Ids and paths below `folder` of the labeled videos that are no longer there."""
    return {id: video.source for id, video in labeled.items() if is_gone(folder / video.source)}


def close_run(store: Store, labeled: Iterable[Labeled], failures: dict[str, str], removed: list[str]) -> Counter[int]:
    """Write the tables that describe the whole store; returns how many kept tracks of each category there are.

    Args:
        store: The store.
        labeled: All videos that it has labels of.
        failures: Videos that could not be labeled, and why.
        removed: Videos that have labels and are no longer there.
    """
    videos = list(labeled)
    counts = Counter(kind for video in videos for kind in video.kinds)
    table = [asdict(row) for row in category_table(store, counts)]
    facts = {"categories": table, "failures": dict(sorted(failures.items())), "removed": removed}
    facts["labels"] = digest(videos=[(video.source, video.recipe) for video in videos])  # so that others see a change
    update_attributes(store.root, facts)
    sweep(store.path)  # of workers that were killed
    return counts


def _sample(store: Store, sources: Iterable[Source], most: int) -> np.ndarray:
    """Embeddings of all tracks, in the order of video ids, thinned evenly to at most `most` rows.

    Only those are held: there may be a million videos.
    """
    names, counts = list[str](), list[int]()
    for name in (f"stages/{source.id}" for source in sources):
        if (stage := complete_group(store.root, name)) is not None:
            names.append(name)
            counts.append(array_at(stage, "embedding").shape[0])
    ends = np.cumsum(counts, dtype=int)
    count = sum(counts)
    if not count:
        return np.zeros((0, 1), np.float32)
    wanted = np.linspace(0, count - 1, min(most, count)).round().astype(int)
    owners = np.searchsorted(ends, wanted, side="right")
    parts = []
    for owner in np.unique(owners):
        first = ends[owner] - counts[owner]
        parts.append(load(store.root, f"{names[owner]}/embedding")[wanted[owners == owner] - first])
    return np.concatenate(parts)


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
