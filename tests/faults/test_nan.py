"""Numbers that are none in the data of a training: named with the file, before the first step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

from tests.training.tiny_run import FRAMES, tiny_config, tiny_dataset
from training.config import TrainError
from training.damage import bad_numbers
from training.dataset_format import open_dataset
from training.trainer import train


@pytest.mark.parametrize(("column", "value"), [("actions", np.nan), ("boxes", np.inf)])
def test_a_nan_in_the_dataset_is_named_with_its_source(tmp_path: Path, column: str, value: float) -> None:
    data = tiny_dataset(tmp_path / "tiny.zarr")
    assert bad_numbers(data) == ""
    episode = int(data.split("train")[3])
    array = zarr.open_group(str(data.path), mode="r+")[column]
    assert isinstance(array, zarr.Array)
    array[episode * FRAMES + 5] = value
    with pytest.raises(TrainError) as stopped:
        train(open_dataset(data.path), tmp_path / "run", tiny_config())
    assert str(stopped.value) == (
        f"{data.path} holds {column} that are NaN or infinite, first in episode {episode} (from episode-{episode}) at "
        "its frame 5. Prepare the dataset anew."
    )
    assert not (tmp_path / "run").exists()
