"""A real S3 server in a process of its own, with a bucket in it; credentials in the environment alone."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest

SECRET = "a-secret-that-must-not-leak"


@dataclass
class Bucket:
    """The bucket called `bucket`, as others see and change it with the client of Amazon."""

    address: str
    log: Path

    @cached_property
    def _client(self) -> Any:
        return boto3.client("s3")

    def put(self, key: str, content: bytes) -> None:
        """Write an object."""
        self._client.put_object(Bucket="bucket", Key=key, Body=content)

    def delete(self, key: str) -> None:
        """Remove an object."""
        self._client.delete_object(Bucket="bucket", Key=key)

    def upload(self, folder: Path, key: str) -> None:
        """Put all files of a folder below a key."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{key}/{path.relative_to(folder).as_posix()}", path.read_bytes())

    def keys(self, prefix: str) -> list[str]:
        """All keys that begin with a text, at most 1,000."""
        answer = self._client.list_objects_v2(Bucket="bucket", Prefix=prefix)
        return [found["Key"] for found in answer.get("Contents", [])]

    def contents(self, folder: str) -> dict[str, bytes]:
        """Every object below a key, by its path there."""
        return {
            key.removeprefix(f"{folder}/"): self._client.get_object(Bucket="bucket", Key=key)["Body"].read()
            for key in self.keys(f"{folder}/")
        }

    def requests(self) -> list[str]:
        """What the server was asked so far, as `GET /bucket/key HTTP/1.1`."""
        return re.findall(r'"([A-Z]+ /[^"]*)"', self.log.read_text())


@contextmanager
def s3_server(patch: pytest.MonkeyPatch, log: Path) -> Iterator[Bucket]:
    """A server on a free port; `patch` has the environment lead to it, in which there is nothing else of AWS."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with log.open("w") as file:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        server = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        _wait_for(address, server)
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_ENDPOINT_URL", address)
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("AWS_ACCESS_KEY_ID", "a-key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        yield Bucket(address, log)
    finally:
        server.terminate()
        server.wait()


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up and server.poll() is None:
        try:
            assert httpx.put(f"{address}/bucket").status_code == 200
            return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError("the S3 server did not start")
