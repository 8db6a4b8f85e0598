"""Where training runs, and what it does to the process that it runs in."""

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource
import torch
from training.devices import keep_memory

def step():
    return [torch.ones(5_000_000) for _ in range(8)]  # freed together, as activations are

def faults(steps):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(steps):
        step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_memory()
faults(3)
print(faults(5))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives memory back so eagerly")
def test_memory_stays_with_the_process_from_one_step_to_the_next() -> None:
    told = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True).stdout
    assert int(told) < 1_000  # of some 200,000
