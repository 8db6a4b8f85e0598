"""How are many futures imagined fast?

A roll-out asks the predictor again and again with windows that mostly repeat. `Unrolling` gives the answers of
`Predictor.forward` at the last place of each window with less work: what actions do to a block is computed once per
action, keys and values of earlier places are kept while the window grows, and the last block thinks about the last
place only. Once the window slides, places change their positions, and it has to be looked at whole.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from training.models.predictor import ConditionedBlock, Predictor
from training.models.products import linear

Kept = tuple[Tensor, Tensor]  # keys and values (R, L, heads, size)


class Unrolling:
    """R futures that grow step by step, each under its own actions."""

    def __init__(self, predictor: Predictor, conditioning: Tensor) -> None:
        """The predictor, not in training, and the encoded actions of all steps, (R, H, width)."""
        self.predictor = predictor
        self.blocks: list[ConditionedBlock] = [*predictor.blocks]
        active = F.silu(conditioning)
        self.changes = [_changes(block, active) for block in self.blocks]
        self.kept: list[Kept | None] = [None] * len(self.blocks)

    def next(self, path: list[Tensor]) -> Tensor:
        """The state (R, width) after the latents (R, D) so far, one per step."""
        context, step = self.predictor.context, len(path)
        slides = step > context
        known = 0 if slides or self.kept[0] is None else self.kept[0][0].shape[1]
        first = step - context if slides else known
        tokens = self.predictor.inputs(torch.stack(path[first:], dim=1))
        tokens = tokens + self.predictor.positions[known : known + tokens.shape[1]]
        for number, (block, changes) in enumerate(zip(self.blocks, self.changes, strict=True)):
            now = [change[:, first:step] for change in changes]
            kept = None if slides else self.kept[number]
            only_last = number == len(self.blocks) - 1
            tokens, self.kept[number] = _through(block, tokens, now, kept, only_last)
        state: Tensor = self.predictor.norm(tokens[:, -1])
        return state


def _changes(block: ConditionedBlock, active: Tensor) -> list[Tensor]:
    """Shift, 1 + scale and gate of attention and of the network, for every action."""
    weight, bias = block.modulation.weight, block.modulation.bias
    ones = torch.zeros_like(bias).view(2, 3, -1)
    ones[:, 1] = 1
    return list(linear(active, weight, bias + ones.flatten()).chunk(6, dim=-1))


def _through(
    block: ConditionedBlock, tokens: Tensor, changes: list[Tensor], kept: Kept | None, only_last: bool
) -> tuple[Tensor, Kept]:
    """What `block` makes of tokens (R, n, width) after those whose keys and values are kept."""
    shift1, scale1, gate1, shift2, scale2, gate2 = changes
    moved = block.attention_norm(torch.addcmul(shift1, block.norm(tokens), scale1))
    query, key, value = block.qkv(moved).unflatten(-1, (3, block.heads, -1)).unbind(-3)
    if kept is not None:
        key, value = torch.cat([kept[0], key], dim=1), torch.cat([kept[1], value], dim=1)
    if only_last:
        tokens, query = tokens[:, -1:], query[:, -1:]
        gate1, shift2, scale2, gate2 = (change[:, -1:] for change in (gate1, shift2, scale2, gate2))
    tokens = torch.addcmul(tokens, gate1, block.out(_attend(query, key, value).flatten(-2)))
    moved = block.ffn_norm(torch.addcmul(shift2, block.norm(tokens), scale2))
    thought = block.fc2(F.gelu(block.fc1(moved)))
    return torch.addcmul(tokens, gate2, thought), (key, value)


def _attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention of the last n places (R, n, heads, size) to all L, for so few that products are summed as such.

    torch's own attention takes twenty times as long for three places.
    """
    asked, there = query.shape[1], key.shape[1]
    mixed = []
    for place in range(asked):
        seen = there - asked + place + 1
        if seen == 1:
            mixed.append(value[:, 0])
            continue
        scores = (query[:, place, None] * key[:, :seen]).sum(-1) * query.shape[-1] ** -0.5
        mixed.append((scores.softmax(1)[..., None] * value[:, :seen]).sum(1))
    return torch.stack(mixed, dim=1)
