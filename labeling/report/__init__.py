"""What did the labeling find?

Takes a store (and the videos, if they are still there) and writes one HTML page that needs nothing else: figures,
categories with example crops, the scatter of embeddings, and for each video a strip of frames, a timeline of its tracks
and what was dropped and why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from labeling.facts import texts, weight_rows
from labeling.palette import NEUTRAL, category_colours, category_names, ink
from labeling.places import Place, on_disk, place
from labeling.provenance import how_made
from labeling.report.charts import POINTS, scatter
from labeling.report.pages import render, save
from labeling.report.stills import Pictures, pictured, strip_budget, take_pictures
from labeling.report.views import BestView, VideoView, choose_examples, view
from labeling.store import Store, StoreError
from labeling.tracks import UNASSIGNED

EXAMPLES = 8  # crops of a category
GALLERY = 60  # categories with crops
OPEN = 6  # videos whose details are open from the start


@dataclass(frozen=True)
class Kind:
    """A category as the page shows it."""

    id: int
    name: str
    colour: str
    ink: str
    tracks: int
    videos: int
    examples: list[tuple[BestView, str]]  # with the crop as a data URI, empty if there is none


def write_report(
    store: Store, out: Path, videos: str | Place | None = None, progress: Callable[[int, int], None] | None = None
) -> Path:
    """Write the report of a store into the folder `out`, and return the path of its `index.html`.

    Args:
        store: The labels.
        out: A folder; created if needed.
        videos: Where the videos are now, if not where they were when they were labeled. Without videos there is a
            report without pictures, which says so.
        progress: Hears of every video: how many are done, how many there are.

    Raises:
        StoreError: The page cannot be written.
        VideoError: A video is said to be outside of the folder.
    """
    out = on_disk(out, "the report")
    views = [view(store[id]) for id in store]
    if not views and not store.failures:
        raise StoreError(f"{store.path} has no labeled video yet. Finish: spectrabox label FOLDER --out {store.path}")
    folder = place(videos) if videos else store.videos_folder
    examples = choose_examples(views, EXAMPLES)
    pictures = _pictures(views, examples, folder, progress)
    plot = scatter(store)
    kinds = _kinds(store, views, examples, pictures)
    text = render(
        "page.html", title=folder.name or str(folder),
        store=store, folder=folder, attributes=dict(store.root.attrs),
        backends=texts(store.root, "backends", {}).values(), weights=weight_rows(store.root),
        failures=sorted(store.failures.items()),
        views=views, pictures=pictures, kinds=kinds, look={kind.id: kind for kind in kinds}, plot=plot,
        figures=_figures(store, views), removed=set(store.removed), made=how_made(store),
        notes=_notes(store, views, pictures, kinds, plot.views if plot else 0),
        open_videos=OPEN, nothing=bool(views) and not any(
            found.strip for found in pictures.values()
        ),
    )  # fmt: skip
    return save(out / "index.html", text)


def _pictures(
    views: list[VideoView],
    examples: dict[int, list[BestView]],
    folder: Place,
    progress: Callable[[int, int], None] | None,
) -> dict[str, Pictures]:
    """The pictures of every video; decodes one video at a time."""
    shown = dict(sorted(examples.items(), key=lambda item: -len(item[1]))[:GALLERY])
    wanted: dict[str, list[BestView]] = {}
    for found in shown.values():
        for best in found:
            wanted.setdefault(best.video, []).append(best)
    count = pictured(len(views))
    budget = strip_budget(count)
    pictures: dict[str, Pictures] = {}
    for order, video in enumerate(views):
        pictures[video.id] = take_pictures(
            video.source, video.sha256, [still.frame for still in video.strip],
            wanted.get(video.id, []), folder, budget if order < count else 0,
        )  # fmt: skip
        if progress:
            progress(order + 1, len(views))
    return pictures


def _kinds(
    store: Store, views: list[VideoView], examples: dict[int, list[BestView]], pictures: dict[str, Pictures]
) -> list[Kind]:
    """The categories that have tracks, most tracks first; unassigned ones come last."""
    colours, names = category_colours(store), category_names(store)
    tracks = Counter(best.category for video in views for best in video.best)
    videos = Counter(kind for video in views for kind in {best.category for best in video.best})
    known = set(names) | set(tracks)
    kinds = [
        Kind(
            kind, names.get(kind, f"object-{kind + 1}"), colours.get(kind, NEUTRAL), ink(colours.get(kind, NEUTRAL)),
            tracks[kind], videos[kind],
            [(best, pictures[best.video].crops.get(best.instance, "")) for best in examples.get(kind, [])],
        )
        for kind in known
    ]  # fmt: skip
    return sorted(kinds, key=lambda kind: (kind.id == UNASSIGNED, -kind.tracks, kind.id))


def _figures(store: Store, views: list[VideoView]) -> list[tuple[str, str]]:
    tracks = sum(video.tracks for video in views)
    kinds = {kind for video in views for kind in video.categories} - {UNASSIGNED}
    dropped = sum(video.dropped.total() for video in views)
    values = {
        "videos": len(views), "frames": sum(video.frames for video in views), "tracks": tracks,
        "categories": len(kinds), "dropped": dropped, "failed": len(store.failures),
    }  # fmt: skip
    return [(name, f"{value:,}") for name, value in values.items()]


def _notes(
    store: Store, views: list[VideoView], pictures: dict[str, Pictures], kinds: list[Kind], points: int
) -> list[str]:
    """What the page leaves out, in sentences."""
    notes = []
    if gone := len(store.removed):
        verb = "was" if gone == 1 else "were"
        notes.append(f"{gone:,} of {len(views):,} videos {verb} no longer there when a run last looked.")
    if points > POINTS:
        notes.append(f"The scatter shows {POINTS:,} of {points:,} views, spread evenly over the videos.")
    if len(views) > pictured(len(views)):
        notes.append(
            f"Only the first {pictured(len(views)):,} of {len(views):,} videos have frames, to keep the page small."
        )
    if few := sum(found.left_out > 0 and bool(found.strip) for found in pictures.values()):
        notes.append(f"{few:,} videos show fewer frames than others, because theirs are large.")
    if len([kind for kind in kinds if kind.tracks]) > GALLERY:
        notes.append(f"Example crops are shown for the {GALLERY} categories with most tracks.")
    if missing := [found for found in pictures.values() if found.missing]:
        notes.append(f"{len(missing):,} of {len(views):,} videos have no pictures here: {missing[0].missing}.")
    return notes
