"""A server on this machine that behaves like those weights come from: ranges, cut connections, a small hub."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Request:
    method: str
    path: str
    range: str
    authorization: str
    sent: int = 0


@dataclass
class WeightServer:
    """What it serves and how badly; it remembers what it was asked."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    heads: bool = True
    cut_after: list[int] = field(default_factory=list)  # bytes after which the next downloads are cut, one by one
    stall_after: int = 0  # bytes after which downloads stop without an end
    pause: float = 0.0  # seconds that a download takes at least
    moved: dict[str, str] = field(default_factory=dict)  # from a path to an address elsewhere
    gated: set[str] = field(default_factory=set)
    requests: list[Request] = field(default_factory=list)

    @property
    def downloads(self) -> list[Request]:
        return [request for request in self.requests if request.method == "GET" and "/api/" not in request.path]

    def repository(self, name: str, files: dict[str, bytes], commit: str = COMMIT) -> None:
        """Serve a repository of the hub: its listing with hashes, and its files at this commit."""
        siblings = []
        for file, content in files.items():
            self.files[f"/{name}/resolve/{commit}/{file}"] = content
            git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            entry = {"rfilename": file, "size": len(content), "blobId": git}
            if file.endswith((".safetensors", ".bin")):
                entry["lfs"] = {
                    "sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130,
                }  # fmt: skip
            siblings.append(entry)
        listing = json.dumps({"id": name, "modelId": name, "sha": commit, "siblings": siblings}).encode()
        for revision in ("main", commit):
            self.files[f"/api/models/{name}/revision/{revision}"] = listing


@contextmanager
def weight_server() -> Iterator[WeightServer]:
    """Serve on a free port of this machine until the end of the block."""
    state, over = WeightServer(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer("HEAD")

        def do_GET(self) -> None:
            self._answer("GET")

        def log_message(self, format: str, *arguments: object) -> None:
            pass

        def _answer(self, method: str) -> None:
            path = unquote(urlsplit(self.path).path)
            asked = self.headers.get("Range", "")
            request = Request(method, path, asked, self.headers.get("Authorization", ""))
            state.requests.append(request)
            if path in state.moved:
                return self._refuse(302, {"Location": state.moved[path]})
            gated = any(path.startswith(f"/{name}/") for name in state.gated)
            if gated or path not in state.files:
                return self._refuse(403 if gated else 404, {"X-Error-Code": "GatedRepo"} if gated else {})
            if method == "HEAD" and not state.heads:
                return self._refuse(405, {})
            content = state.files[path]
            start = int(asked.removeprefix("bytes=").split("-")[0]) if asked and state.ranges else 0
            if start and start >= len(content):
                return self._refuse(416, {"Content-Range": f"bytes */{len(content)}"})
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(content) - start))
            self.send_header("ETag", f'"{hashlib.md5(content).hexdigest()}"')
            self.end_headers()
            if method == "GET":
                self._send(content[start:], request)

        def _send(self, body: bytes, request: Request) -> None:
            if "/api/" not in request.path:
                threading.Event().wait(state.pause)
                if state.stall_after:
                    self.wfile.write(body[: state.stall_after])
                    over.wait(30)
                    self.close_connection = True
                    return
                if state.cut_after:
                    body = body[: state.cut_after.pop(0)]
                    self.close_connection = True
            self.wfile.write(body)
            request.sent = len(body)

        def _refuse(self, status: int, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": "0"}.items():
                self.send_header(name, value)
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()
