"""What does a latent say about the boxes?

The auxiliary head: two layers from latents (..., D) to the targets (..., S). It is as shallow as it can be, so that
the world model and not the head has to learn where things are.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F


class AuxiliaryHead(nn.Module):
    """A perceptron with one hidden layer."""

    def __init__(self, latent: int, hidden: int, targets: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(latent, hidden)
        self.fc2 = nn.Linear(hidden, targets)

    def forward(self, latents: Tensor) -> Tensor:
        """(..., D) to (..., S)."""
        answers: Tensor = self.fc2(F.gelu(self.fc1(latents)))
        return answers

    def frozen(self, latents: Tensor) -> Tensor:
        """The same answers, but gradients reach the latents only: the head does not learn from this."""
        fixed = {name: parameter.detach() for name, parameter in self.named_parameters()}
        answers: Tensor = functional_call(self, fixed, (latents,))
        return answers
