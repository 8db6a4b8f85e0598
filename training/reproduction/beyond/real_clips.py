"""Does the auxiliary head help on real clips, without actions and with labels of our own?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from training.config import load_config
from training.dataset_format import DatasetError
from training.reproduction.beyond.clips import Clips, fingerprint, true_boxes, videos_in
from training.reproduction.beyond.within_clips import FIGURES, WithinClips, clip_name
from training.reproduction.cells import Figure, Folder, Training
from training.reproduction.intervals import estimate
from training.reproduction.scale import HEAD, LEWM, Scale
from training.reproduction.table import Column, Entry, Row, Table

NAME = "real-clips"
TITLE = "Real clips, without actions"
FOLDS = 3
VARIANTS = {"with the head": HEAD, "LeWM": LEWM, "untrained": LEWM}
NEEDS = (
    "real-clips needs clips with true boxes, which are not ours to ship: give a folder of NAME.mp4 with NAME.json "
    "beside each by --videos DIR. docs/beyond.md says what is in these."
)
LABELED, JUDGED = 5.0, 0.5  # minutes of a core, as far as they can be known before


def table(scale: Scale) -> Table:
    """At a scale; without a folder of clips it has no rows, and says what it needs."""
    columns = tuple(Column(name, "correlation", group) for group in FIGURES for name in VARIANTS)
    if not scale.clips:
        return Table(NAME, TITLE, "", scale, columns, (), needs=NEEDS)
    videos = videos_in(scale.clips)
    told = [video for video in videos if true_boxes(video.file)]
    if len(told) < FOLDS:
        raise DatasetError(
            f"{len(told)} of the {len(videos)} clips in {scale.clips} have true boxes beside them (NAME.json), at "
            f"least {FOLDS} are needed."
        )
    content = fingerprint(scale.clips)
    runs = [
        {name: _trainings(scale, name, _clips(scale, content, fold, true=False)) for name in VARIANTS}
        for fold in range(FOLDS)
    ]
    measures = [
        WithinClips(on=_clips(scale, content, fold, true=True), minutes=_timed(scale, JUDGED)) for fold in range(FOLDS)
    ]
    rows = [
        Row(
            clip_name(video.relative),
            tuple(
                Entry(runs[number % FOLDS][name], measures[number % FOLDS], f"{clip_name(video.relative)}: {figure}",
                      absent="not judged")
                for figure in FIGURES for name in VARIANTS
            ),
        )
        for number, video in enumerate(videos) if video in told
    ]  # fmt: skip
    notes = (
        f"Each clip is held out in one of {FOLDS} folds, by turns in the order of their names; it is judged by models "
        "that were trained on the other two thirds. Trained with labels of our own, judged by true boxes.",
        "Spearman: distances of latents against distances of objects, over all pairs of frames of a clip. Probe r: the "
        "mean place of a clip's objects, read by a linear map that was fitted on true boxes of the training clips.",
        "Not judged: clips whose objects stay where they are or are seen in fewer than 20 frames. LeWM: the same "
        "without the head. Untrained: after one step, which shows what any network would give.",
    )
    return Table(NAME, TITLE, "", scale, columns, tuple(rows), notes, find=lambda folder: found(rows, folder))


def found(rows: Sequence[Row], folder: Folder) -> list[str]:
    """What the head changes, compared clip by clip."""
    sentences = []
    for number, what in enumerate(FIGURES):
        first = number * len(VARIANTS)
        means = [[_mean(entry, folder) for entry in row.entries[first : first + len(VARIANTS)]] for row in rows]
        known = np.array([row for row in means if None not in row], float)
        if len(known) < 2:
            continue
        words = ", ".join(f"{name} {mean:.3f}" for name, mean in zip(VARIANTS, known.mean(axis=0), strict=True))
        title = what[0].upper() + what[1:]
        sentences.append(f"{title}, mean over {len(known)} held-out clips: {words}.")
        for other, name in ((1, "without it"), (2, "without training")):
            change = known[:, 0] - known[:, other]
            mean = estimate([Figure(one) for one in change])
            sentences.append(
                f"{title}: with the head higher than {name} in {(change > 0).sum()} of {len(known)} clips, by "
                f"{mean.value:.3f} on average ({mean.low:.3f} to {mean.high:.3f}, Student's t over clips)."
            )
    return sentences


def _mean(entry: Entry, folder: Folder) -> float | None:
    """Over seeds; None if it is not known yet, or not judged."""
    assert entry.measure is not None
    taken = [folder.figures(training, entry.measure) or {} for training in entry.trainings]
    values = [figures[entry.figure].value for figures in taken if entry.figure in figures]
    return sum(values) / len(values) if values else None


def _trainings(scale: Scale, name: str, data: Clips) -> tuple[Training, ...]:
    kind = f"{NAME}, untrained" if name == "untrained" else NAME
    return scale.trainings(kind, "clips", kind, VARIANTS[name], f"fold {data.fold + 1}, {name}", data)


def _clips(scale: Scale, content: str, fold: int, true: bool) -> Clips:
    budget = scale.budgets[NAME]
    size = load_config(None, [*budget.settings, *scale.every], budget.preset).model.encoder.size
    return Clips(scale.clips, content, size, fold, FOLDS, true, _timed(scale, 0.5 if true else LABELED))


def _timed(scale: Scale, minutes: float) -> float:
    return minutes if scale.timed else 0.0
