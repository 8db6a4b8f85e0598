"""What does a latent say about the boxes?

The auxiliary head: two layers, unless one chooses otherwise, from latents (..., D) to the targets (..., S). It is as
shallow as it can be, so that the world model and not the head has to learn where things are.
"""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from training.models.products import Linear


class AuxiliaryHead(nn.Module):
    """A perceptron of `depth` layers, named fc1, fc2, ...; with one it is linear."""

    def __init__(self, latent: int, hidden: int, targets: int, depth: int = 2) -> None:
        super().__init__()
        sizes = [latent, *[hidden] * (depth - 1), targets]
        for number, (before, after) in enumerate(pairwise(sizes), 1):
            self.add_module(f"fc{number}", Linear(before, after))

    def forward(self, latents: Tensor) -> Tensor:
        """(..., D) to (..., S)."""
        first, *others = self.children()
        answers: Tensor = first(latents)
        for layer in others:
            answers = layer(F.gelu(answers))
        return answers

    def frozen(self, latents: Tensor) -> Tensor:
        """The same answers, but gradients reach the latents only: the head does not learn from this."""
        fixed = {name: parameter.detach() for name, parameter in self.named_parameters()}
        answers: Tensor = functional_call(self, fixed, (latents,))
        return answers
