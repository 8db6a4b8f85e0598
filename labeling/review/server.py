"""How does the page talk to the store?

A FastAPI application for one desk: the page itself, lists as JSON, boxes and frames as bytes, edits as JSON. What goes
wrong is answered with one sentence. `serve` runs it on this machine until it is stopped.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import Annotated

import uvicorn
from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import ASGIApp

from labeling.problems import RunError
from labeling.review.desk import Conflict, Desk
from labeling.review.edits import Edit
from labeling.review.frames import LONGEST_SIDE, Pictures
from labeling.review.guard import Guard
from labeling.review.log import Busy
from labeling.review.outcome import EditError
from labeling.review.sheet import Sheet
from labeling.store import StoreError
from labeling.video import VideoError

STATIC = Path(__file__).parent / "static"
KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
STATUS: dict[type[Exception], int] = {EditError: 422, Conflict: 409, Busy: 423, VideoError: 404}
MOST = 256  # frames in one answer


class Change(BaseModel):
    """An edit, or that one is undone, done to the state `version`."""

    model_config = ConfigDict(extra="forbid")

    version: str
    edit: Edit | None = Field(None, discriminator="kind")


def application(desk: Desk, pictures: Pictures, host: str = "127.0.0.1", token: str = "") -> ASGIApp:
    """The page and what it asks for."""
    token = token or secrets.token_urlsafe(24)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    for kind in (RunError, StoreError, VideoError):
        app.add_exception_handler(kind, _told)
    app.add_exception_handler(RequestValidationError, _misunderstood)
    files = {path.name: path for path in STATIC.iterdir() if path.suffix in KINDS}

    @app.get("/")
    def page() -> HTMLResponse:
        return HTMLResponse((STATIC / "index.html").read_text(encoding="utf-8").replace("{{token}}", token))

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in files:
            raise HTTPException(404)
        headers = {"cache-control": "no-cache"}
        return Response(files[name].read_bytes(), media_type=KINDS[files[name].suffix], headers=headers)

    @app.get("/api/store")
    def store() -> JSONResponse:
        return JSONResponse(desk.overview())

    @app.get("/api/version")
    def version() -> JSONResponse:
        return JSONResponse({"version": desk.refresh()})

    @app.get("/api/videos/{video}")
    def video(video: str) -> JSONResponse:
        return JSONResponse(_sheet(desk, video).facts())

    @app.get("/api/videos/{video}/boxes/{stretch}")
    def boxes(video: str, stretch: int) -> Response:
        sheet = _sheet(desk, video)
        if stretch < 0:
            raise HTTPException(404)
        return Response(
            sheet.boxes(stretch), media_type="application/octet-stream", headers={"x-version": sheet.version}
        )

    @app.get("/api/videos/{video}/frames")
    def frames(
        video: str, begin: Annotated[int, Query(ge=0)], end: Annotated[int, Query(ge=1)],
        side: Annotated[int, Query(ge=16, le=LONGEST_SIDE)] = LONGEST_SIDE,
    ) -> StreamingResponse:  # fmt: skip
        wanted = desk.wanted(video)
        if wanted is None or begin >= wanted.frames:
            raise HTTPException(404)
        parts = pictures.stretch(wanted, begin, min(end, begin + MOST), side)
        first = next(parts)  # what is wrong with a video shows here, and can still be told
        return StreamingResponse(chain([first], _as_far_as(parts)), media_type="application/octet-stream")

    @app.post("/api/edit")
    def edit(change: Change) -> JSONResponse:
        if change.edit is None:
            raise EditError("there is no edit")
        return JSONResponse({"words": desk.edit(change.edit, change.version), "version": desk.version})

    @app.post("/api/undo")
    def undo(change: Change) -> JSONResponse:
        return JSONResponse({"words": desk.undo(change.version), "version": desk.version})

    @app.post("/api/redo")
    def redo(change: Change) -> JSONResponse:
        return JSONResponse({"words": desk.redo(change.version), "version": desk.version})

    return Guard(app, host, token)


def _as_far_as(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Frames up to the first that cannot be had; who asks for that one gets to know why."""
    with suppress(VideoError):
        yield from parts


def _sheet(desk: Desk, video: str) -> Sheet:
    try:
        return desk.sheet(video)
    except KeyError as error:
        raise HTTPException(404, f"there is no video {video}") from error


def _told(request: Request, error: Exception) -> JSONResponse:
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 503)
    return JSONResponse({"error": str(error)}, status)


def _misunderstood(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return JSONResponse({"error": f"{'.'.join(str(part) for part in first['loc'][1:])}: {first['msg']}"}, 422)


def serve(desk: Desk, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve the page of a desk until Ctrl-C; `ready` is called with its address once it can be opened.

    Raises:
        RunError: The port cannot be used.
    """
    pictures = Pictures(desk.videos_folder)
    with closing(pictures), _listening(host, port) as sock:
        shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host
        address = f"http://{f'[{shown}]' if ':' in shown else shown}:{sock.getsockname()[1]}/"
        config = uvicorn.Config(application(desk, pictures, host), log_level="warning", timeout_graceful_shutdown=2)
        _Server(config, lambda: ready(address)).run(sockets=[sock])


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        other = "--host" if isinstance(error, socket.gaierror) else "--port"
        raise RunError(f"{host}:{port} cannot be used ({error.strerror}). Choose another {other}.") from error
    return sock


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()
