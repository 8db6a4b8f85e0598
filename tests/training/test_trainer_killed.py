"""A run that is killed loses nothing but time."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.tiny_run import numbers, same, weights
from training import checkpoint
from training.dataset_format import Dataset
from training.trainer import train

KILLED = """
import os, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from tests.training.tiny_run import tiny_config
from training import checkpoint
from training.trainer import Listener, train

def die():
    os.kill(os.getpid(), signal.SIGKILL)

class Killer(Listener):
    def stepped(self, step, terms):
        if sys.argv[3] == str(step):
            die()

if sys.argv[3] == "writing":
    save = checkpoint.save_file
    def half(tensors, path):
        save(tensors, path)
        if Path(sys.argv[2], "checkpoints", "step-00000006").exists() and path.name == checkpoint.MOMENTS:
            die()
    checkpoint.save_file = half
train(sys.argv[1], sys.argv[2], tiny_config(), listener=Killer())
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["12", "20", "writing"])
def test_a_killed_run_goes_on_to_the_same_numbers(dataset: Dataset, whole: Path, tmp_path: Path, moment: str) -> None:
    """At a checkpoint, in the middle of an epoch, and while a checkpoint is being written."""
    killed = subprocess.run([sys.executable, "-c", KILLED, str(dataset.path), str(tmp_path), moment], check=False)
    assert killed.returncode == -signal.SIGKILL
    newest = checkpoint.last(tmp_path)
    assert newest is not None
    assert newest.name == {"12": "step-00000012", "20": "step-00000018", "writing": "step-00000006"}[moment]
    train(dataset, tmp_path, resume=True)
    assert numbers(tmp_path) == numbers(whole)
    assert same(weights(tmp_path), weights(whole))
    assert not list((tmp_path / "checkpoints").glob(".draft*"))
