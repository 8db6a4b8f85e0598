"""How much memory do tensors take at a time? Counts every tensor that an operation returns until it is let go."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveTensors(TorchDispatchMode):
    """While active, `held` is the bytes of tensors that were made since and still live; `most` is their peak."""

    def __init__(self) -> None:
        super().__init__()
        self.held = self.most = 0
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {_place(tensor) for tensor in tree_leaves((args, kwargs)) if isinstance(tensor, torch.Tensor)}
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and _place(tensor) not in given:
                self._note(tensor.untyped_storage())
        return result

    def _note(self, storage: Any) -> None:
        if storage in self._known:
            return
        self._known.add(storage)
        size = storage.nbytes()
        self.held += size
        self.most = max(self.most, self.held)
        weakref.finalize(storage, self._let_go, size)

    def _let_go(self, size: int) -> None:
        self.held -= size


def _place(tensor: torch.Tensor) -> int:
    """Where its numbers lie: a view is no memory of its own."""
    return tensor.untyped_storage().data_ptr()
