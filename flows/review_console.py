"""What a person sees of a review at the terminal."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path

from rich.markup import escape

from flows.console import errors, plain_errors, terminal


def review(store: Path, videos: Path | None, host: str, port: int, author: str, opened: bool) -> None:
    """Serve the review page of a store until Ctrl-C."""
    with plain_errors():
        from labeling.review.desk import Desk
        from labeling.review.server import serve

        def ready(address: str) -> None:
            terminal.print(f"Review: {escape(address)}", soft_wrap=True)
            terminal.print("Every edit is saved at once. Stop with Ctrl-C.")
            if opened:  # in a thread: some browsers block whoever opens them
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

        if not host.startswith("127.") and host not in ("localhost", "::1"):
            errors.print(
                f"[bold yellow]warning[/] Whoever can reach {escape(host)} can see these videos and change their "
                "labels: the page asks for no password.",
                soft_wrap=True,
            )
        serve(Desk(store, videos, author), host, port, ready)
