"""What does a score look like?

`write_score` puts `score.json`, for programs, and `index.html`, for people, into a folder: figures of each clip, and
the frames where labels and truth agree least, with both boxes. The page needs nothing else.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from labeling.places import Place, on_disk, place
from labeling.report.pages import render, save
from labeling.report.stills import Pictures, pictured, strip_budget, take_pictures
from labeling.scoring import ClipScore, Progress, Scores
from labeling.scoring.figures import MEASURES
from labeling.scoring.worst import Fate, WorstFrame

HERE = Path(__file__).parent
OPEN = 6  # clips whose frames are open from the start
HEADLINE = {
    "hota": "HOTA", "deta": "DetA", "assa": "AssA", "idf1": "IDF1", "recall": "recall",
    "precision": "precision",
}  # fmt: skip
FATES: dict[Fate, str] = {
    "true": "true, and found",
    "missed": "true, but missed",
    "found": "found, and true",
    "extra": "found, but not true",
    "aside": "found, not judged",
}
TAGGED: tuple[Fate, ...] = ("found", "extra")  # boxes that carry the number of their track


def write_score(
    scores: Scores,
    out: Path,
    videos: str | Place | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write a score into the folder `out`, and return the path of its `index.html`.

    Args:
        scores: What `score` returned.
        out: A folder; created if needed.
        videos: Where the videos are now, if not where they were when they were labeled. Without them, boxes are shown
            on empty frames.
        progress: Hears of the clip, how many are done and how many there are.

    Raises:
        StoreError: A file cannot be written.
        VideoError: A video is said to be outside of the folder.
    """
    out = on_disk(out, "the score")
    shown = sorted(
        (clip for clip in scores.clips if clip.film and clip.worst), key=lambda clip: clip.figures.hota or 0.0
    )
    text = render(
        "page.html", beside=HERE, title=scores.store.path.name or str(scores.store.path), scores=scores, shown=shown,
        pictures=_pictures(shown, place(videos) if videos else scores.store.videos_folder, progress),
        measures=MEASURES, headline=HEADLINE, fates=FATES, tagged=TAGGED, counts=_counts, open_clips=OPEN,
        version=version("spectrabox"),
    )  # fmt: skip
    save(out / "score.json", json.dumps(as_dict(scores), indent=1, ensure_ascii=False) + "\n")
    return save(out / "index.html", text)


def as_dict(scores: Scores) -> dict[str, Any]:
    """A score as plain values, as `score.json` has them; null where there is nothing to measure."""
    clips = [
        {
            "name": clip.name, "video": clip.film.source if clip.film else None, "frames": clip.frames,
            "objects": clip.objects, "tracks": clip.tracks, "set_aside": clip.aside, "standing": clip.standing,
            "note": clip.note, "figures": clip.figures.values(),
            "worst_frames": [{"frame": one.frame, "agreement": one.agreement} for one in clip.worst],
        }
        for clip in scores.clips
    ]  # fmt: skip
    return {
        "store": str(scores.store.path), "truth": scores.truth, "created_by": f"spectrabox {version('spectrabox')}",
        "mean": scores.mean.values(), "clips": clips, "not_judged": scores.problems, "notes": scores.notes,
    }  # fmt: skip


def _pictures(shown: list[ClipScore], folder: Place, progress: Progress | None) -> dict[str, Pictures]:
    """Frames of the clips, worst first: with very many, the last have none."""
    count = pictured(len(shown))
    pictures = {}
    for order, clip in enumerate(shown):
        assert clip.film is not None
        if progress:
            progress(clip.name, order, len(shown))
        budget = strip_budget(count) if order < count else 0
        frames = [worst.frame for worst in clip.worst]
        pictures[clip.film.id] = take_pictures(clip.film.source, clip.film.sha256, frames, [], folder, budget)
    return pictures


def _counts(worst: WorstFrame) -> str:
    """What became of the boxes of a frame, in words."""
    words: dict[Fate, str] = {"true": "found", "missed": "missed", "extra": "made up", "aside": "not judged"}
    counts = {word: worst.count(fate) for fate, word in words.items()}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)
