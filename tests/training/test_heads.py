"""The auxiliary head may be deeper, or linear."""

from __future__ import annotations

import pytest
import torch

from training.config import load_config
from training.models.heads import AuxiliaryHead


@pytest.mark.parametrize(
    ("depth", "shapes"),
    [
        (1, {"fc1.weight": (18, 12)}),
        (2, {"fc1.weight": (64, 12), "fc2.weight": (18, 64)}),
        (4, {"fc1.weight": (64, 12), "fc2.weight": (64, 64), "fc3.weight": (64, 64), "fc4.weight": (18, 64)}),
    ],
)
def test_a_head_has_as_many_layers_as_chosen(depth: int, shapes: dict[str, tuple[int, int]]) -> None:
    head = AuxiliaryHead(12, 64, 18, depth)
    found = {name: tuple(values.shape) for name, values in head.state_dict().items() if name.endswith("weight")}
    assert found == shapes
    latents = torch.randn(5, 3, 12)
    assert head(latents).shape == (5, 3, 18)
    torch.testing.assert_close(head.frozen(latents), head(latents))


def test_a_linear_head_is_linear_and_a_deeper_one_is_not() -> None:
    one, other = torch.randn(2, 12)
    for depth, linear in ((1, True), (2, False), (3, False)):
        head = AuxiliaryHead(12, 64, 18, depth).double()
        both = head((one + other).double() / 2)
        assert torch.allclose(both, (head(one.double()) + head(other.double())) / 2) == linear


def test_the_depth_is_a_setting() -> None:
    assert load_config(settings=["objective.head_depth=3"]).objective.head_depth == 3
    assert load_config().objective.head_depth == 2
