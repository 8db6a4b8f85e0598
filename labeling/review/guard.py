"""Who may talk to the review page?

Only the page itself. Other sites in the same browser could send requests to a server on localhost, or have their own
name lead to it: so the name that was asked for must be ours, writing needs a word that only the page knows, and the
page may load nothing from elsewhere.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import socket
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN = "x-spectrabox-token"
LONGEST_BODY = 1 << 20  # bytes
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


class Guard:
    """Refuses requests that do not come from the page; around an application."""

    def __init__(self, app: ASGIApp, host: str, token: str) -> None:
        self._app, self._token = app, token
        self._names = {"localhost", socket.gethostname().lower(), host.lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with what is wrong."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        status, why = self._refusal(str(scope["method"]), headers)
        if status:
            body = json.dumps({"error": why}).encode()
            fields = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": status, "headers": fields})
            await send({"type": "http.response.body", "body": body})
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                fields = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    fields[name] = value
                fields.setdefault("cache-control", "no-store")
            await send(message)

        await self._app(scope, receive, guarded)

    def _refusal(self, method: str, headers: Headers) -> tuple[int, str]:
        host = headers.get("host", "")
        if not self._is_ours(host):
            return 403, "this page is not known by that name. Open it by the address that the terminal shows"
        if method in ("GET", "HEAD"):
            return 0, ""
        if not _is_same_origin(headers, host):
            return 403, "another site asked for this"
        if not hmac.compare_digest(headers.get(TOKEN, "").encode(), self._token.encode()):
            return 403, "the server was started anew. Reload the page"
        length = headers.get("content-length", "")
        if not length.isdigit() or int(length) > LONGEST_BODY:
            return 413, "that is too much at once"
        return 0, ""

    def _is_ours(self, host: str) -> bool:
        """Whether a Host header names this machine; a number can't be made to lead elsewhere, a name can."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        name = name.removeprefix("[").removesuffix("]").lower()
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _is_same_origin(headers: Mapping[str, str], host: str) -> bool:
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    return origin in (None, f"http://{host}") and site in (None, "same-origin")
