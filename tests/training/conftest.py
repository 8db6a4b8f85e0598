"""What tests of training share."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.training.labeled import Labeled, labeled_folder

if TYPE_CHECKING:
    from training.dataset_format import Dataset


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The tiny dataset of `tiny_run`."""
    import torch

    from tests.training.tiny_run import tiny_dataset

    torch.set_num_threads(1)
    return tiny_dataset(tmp_path_factory.mktemp("data") / "tiny.zarr")


@pytest.fixture(scope="module")
def whole(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on it that nothing interrupted."""
    from tests.training.tiny_run import tiny_config
    from training.trainer import train

    run = tmp_path_factory.mktemp("runs") / "whole"
    train(dataset, run, tiny_config())
    return run


@pytest.fixture
def labeled(tmp_path: Path) -> Labeled:
    """An empty folder of videos with an empty store."""
    return labeled_folder(tmp_path)


@pytest.fixture
def free_port() -> int:
    """A port at which processes can meet."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
