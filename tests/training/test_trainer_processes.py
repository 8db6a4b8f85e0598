"""Several processes train like one on the same global batch."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.tiny_run import numbers, tiny_config, tiny_dataset
from training.config import TrainConfig
from training.trainer import train

TARGETS: dict[str, dict[str, Any]] = {"spectrum": {}, "slots": {"matching": "frame"}, "half": {}}
TERMS = ("total", "prediction", "regularizer", "encoded", "predicted")
TOGETHER = """
import os, sys
import torch
torch.set_num_threads(1)
from tests.training.test_trainer_processes import TARGETS, settings
from training.trainer import train
for port, name in zip(sys.argv[3:], TARGETS):
    os.environ["MASTER_PORT"] = port
    train(sys.argv[1], sys.argv[2] + "/" + name, settings(name), device="cpu")
"""


def settings(name: str) -> TrainConfig:
    """No dropout, and weights so large that BatchNorm does not enlarge rounding errors at the start."""
    model = tiny_config().model.model_dump()
    model["predictor"]["dropout"], model["encoder"]["init"] = 0.0, 0.3
    precision = "bf16" if name == "half" else "fp32"
    return tiny_config(
        steps=12, validate_every=12, target=TARGETS[name], model=model, optimiser={"lr": 1e-3}, precision=precision
    )


@pytest.mark.slow
def test_two_processes_train_like_one_on_the_same_batch(tmp_path: Path) -> None:
    """Statistics of BatchNorm and SIGReg and the counts of masked losses are those of the whole batch.

    The white square is not in every frame, so that the processes have different counts.
    """
    torch.set_num_threads(1)
    data = tiny_dataset(tmp_path / "tiny.zarr").path
    ports = [str(_free_port()) for _ in TARGETS]
    shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", TOGETHER, str(data), str(tmp_path), *ports]
    processes = [
        subprocess.Popen(command, env={**os.environ, **shared, "RANK": rank, "LOCAL_RANK": rank}) for rank in "01"
    ]
    try:
        assert [process.wait(200) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    for name in TARGETS:
        train(data, tmp_path / f"{name} alone", settings(name))
        together, alone = numbers(tmp_path / name), numbers(tmp_path / f"{name} alone")
        assert [row["step"] for row in together] == [row["step"] for row in alone] == [5, 10, 12, 12]
        for one, other in zip(together, alone, strict=True):
            trained = one["split"] == "train"
            for key in (*TERMS, "gradient") if trained else TERMS:
                near = 2e-2 if name == "half" else 1e-5
                assert one[key] == pytest.approx(other[key], rel=near), (name, one["step"], key)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
