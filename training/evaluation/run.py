"""How is a finished run judged, from its folder to a page? The steps of `spectrabox evaluate` and of its flow."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile

from training.config import CheckpointName, Device, TrainError
from training.dataset_format import SplitName
from training.devices import available
from training.evaluation import page
from training.evaluation.evaluate import Evaluation, dataset_of, evaluate
from training.evaluation.latents import Say
from training.run_folder import refuse_links_in
from training.world_model import load


def evaluate_run(
    run: Path, out: Path | None = None, dataset: Path | None = None, which: CheckpointName = "best",
    training: bool = False, starts: int | None = None, device: Device = "auto", say: Say | None = None, seeds: int = 1,
) -> tuple[Evaluation, Path]:  # fmt: skip
    """Judge a run and write its figures; the evaluation and the path of its page.

    Args:
        run: A run, or one of its checkpoints.
        out: Folder for figures and page; None: `evaluation` in the run, also if one of its checkpoints is judged.
        dataset: The dataset, if it is not where it was; or another one, which is then said.
        which: The checkpoint: best by validation loss, or last.
        training: Judge on episodes that it was trained on.
        starts: Places from which plans are tried out in the simulator; 0: none; None: 100 in n-ball, 50 elsewhere.
        device: Where it is judged.
        say: Hears what is being done.
        seeds: Of planning, each with starts of its own.
    """
    say = say or (lambda what: None)
    model = load(run, which, available(device))
    data = dataset_of(model, dataset)
    home = model.folder or run
    if out is None:
        refuse_links_in(home)
    place = _writable(out or home / "evaluation")
    split: SplitName = "train" if training else "validation"
    found, material = evaluate(model, data, home, split, say, starts=starts, seeds=seeds)
    say("drawing")
    return found, page.write(found, material, place)


def _writable(place: Path) -> Path:
    """The folder, made; that it cannot be written to is said before the work, not after."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=place):
            return place
    except OSError as error:
        raise TrainError(f"{place} cannot be written to ({error.strerror}). Choose another folder: --out.") from error
