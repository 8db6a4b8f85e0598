"""Where are the numbers of a run written down?

`metrics.jsonl` in the run's folder: one line of training means every few steps, one line for each look at the
validation split; also to TensorBoard if asked. A resumed run drops the lines after its checkpoint and writes them anew.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from labeling.files import write_whole
from training.config import Tracker, TrainError

FILE = "metrics.jsonl"


class Metrics:
    """The numbers of one run, as they come."""

    def __init__(self, run: Path, tracker: Tracker = "none", upto: int = 0) -> None:
        """Lines of steps after `upto` are removed."""
        self.path = run / FILE
        rows = [row for row in read(run) if row["step"] <= upto] if upto else []
        write_whole(self.path, "".join(_line(row) for row in rows))
        self._board = _tensorboard(run, upto) if tracker == "tensorboard" else None
        self._file = self.path.open("a", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:  # fmt: skip # noqa: E501
        self._file.close()
        if self._board:
            self._board.close()

    def write(self, row: Mapping[str, Any]) -> None:
        """Add a line; it has `step` and `split`."""
        self._file.write(_line(row))
        self._file.flush()
        if self._board:
            for name, value in _leaves({name: value for name, value in row.items() if name != "step"}):
                self._board.add_scalar(f"{row['split']}/{name}", value, row["step"])


def read(run: Path) -> list[dict[str, Any]]:
    """All complete lines of a run's metrics; a line that a kill cut off does not count."""
    try:
        text = (run / FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    try:
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    except ValueError as error:
        raise TrainError(f"{run / FILE} is damaged ({error}): remove the line, or train in a new folder.") from error


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(_plain(row), allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """JSON has no NaN: what could not be measured is null."""
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _leaves(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            yield f"{prefix}{name}", value


def _tensorboard(run: Path, upto: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise TrainError("tracker=tensorboard needs a package: pip install tensorboard") from error
    return SummaryWriter(str(run / "tensorboard"), purge_step=upto + 1)
