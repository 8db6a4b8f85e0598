"""Who hears how a flow run in this process is getting on?

A listener is no parameter of a flow, for Prefect would show it in the form and store it: it is held beside the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

L = TypeVar("L")


class HeardBy(Generic[L]):
    """`with heard_by(listener):` lets it hear of all runs of one flow; the flow asks for `heard_by.listener`."""

    def __init__(self) -> None:
        self._listener: ContextVar[L | None] = ContextVar("listener", default=None)

    def __reduce__(self) -> tuple[type[HeardBy[L]], tuple[()]]:
        """In another process, to which a task goes, nobody hears."""
        return type(self), ()

    @contextmanager
    def __call__(self, listener: L) -> Iterator[None]:
        """Let `listener` hear for a while."""
        token = self._listener.set(listener)
        try:
            yield
        finally:
            self._listener.reset(token)

    @property
    def listener(self) -> L | None:
        """Who hears now, if anybody."""
        return self._listener.get()
