"""Downloads come whole and checked, or not at all, from real sockets on this machine."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import constants

from labeling import weights
from labeling.checkpoints import KNOWN, Checkpoint
from labeling.weights import WeightsError
from tests.labeling.weight_server import COMMIT, WeightServer, weight_server

CONTENT = bytes(range(256)) * 4096  # 1 MiB
SHA256 = hashlib.sha256(CONTENT).hexdigest()
CONFIG = b'{"model_type": "dinov2"}'
CHUNK = 64 * 1024


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WeightServer]:
    """A server with one checkpoint, `disc`, in the table; small pieces, so that a small file has many."""
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", CHUNK)
    monkeypatch.setattr("huggingface_hub.file_download.time", SimpleNamespace(sleep=lambda seconds: None))
    with weight_server() as state:
        state.files["/disc.pth"] = CONTENT
        disc = Checkpoint("disc", "a test", "MIT", 1, "disc.pth", f"{state.url}/disc.pth", "https://example.org/disc")
        monkeypatch.setitem(KNOWN, "disc", replace(disc, sha256=SHA256))
        monkeypatch.setitem(KNOWN, "unhashed", replace(disc, name="unhashed"))
        yield state


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "weights"


def test_a_whole_file_arrives_and_is_found_by_name(server: WeightServer, folder: Path) -> None:
    told: list[tuple[int, int]] = []
    fetched = weights.fetch("disc", folder, lambda what, done, total: told.append((done, total)))
    assert fetched.path.read_bytes() == CONTENT
    assert fetched.path.name == "disc.pth"
    assert fetched.sha256 == SHA256
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert weights.resolve("disc", folder) == fetched
    assert len(server.downloads) == 1
    assert not (folder / ".partial" / "disc").exists()


def test_what_is_here_and_whole_is_not_fetched_again(server: WeightServer, folder: Path) -> None:
    assert weights.fetch("disc", folder) == weights.fetch("disc", folder)
    assert len(server.downloads) == 1


def test_a_cut_connection_is_resumed_with_a_range(server: WeightServer, folder: Path) -> None:
    server.cut_after = [5 * CHUNK + 7]
    assert weights.fetch("disc", folder).sha256 == SHA256
    first, second = server.downloads
    assert first.range == ""
    assert second.range == f"bytes={5 * CHUNK}-"
    assert second.sent == len(CONTENT) - 5 * CHUNK


def test_an_interrupted_fetch_goes_on_where_it_stopped(server: WeightServer, folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        weights.fetch("disc", folder, _interrupt_after(3 * CHUNK))
    with pytest.raises(WeightsError, match="not on this machine"):
        weights.resolve("disc", folder)
    assert weights.verify(folder=folder) == []
    assert weights.fetch("disc", folder).path.read_bytes() == CONTENT
    assert server.downloads[-1].range == f"bytes={3 * CHUNK}-"
    assert server.downloads[-1].sent == len(CONTENT) - 3 * CHUNK


def test_a_killed_process_leaves_a_part_that_the_next_one_completes(server: WeightServer, folder: Path) -> None:
    server.stall_after = 6 * CHUNK
    fetching = (
        "import labeling.weights, pathlib; from huggingface_hub import constants;"
        "from labeling.checkpoints import KNOWN, Checkpoint;"
        f"constants.DOWNLOAD_CHUNK_SIZE = {CHUNK}; KNOWN['disc'] = {KNOWN['disc']!r};"
        f"labeling.weights.fetch('disc', pathlib.Path({str(folder)!r}))"
    )
    process = subprocess.Popen([sys.executable, "-c", fetching])
    for _ in range(300):
        if any(part.stat().st_size >= 6 * CHUNK for part in folder.glob(".partial/disc/*/disc.pth.part")):
            break
        time.sleep(0.1)
    process.kill()
    process.wait()
    server.stall_after = 0
    assert weights.listing(folder)[-1].path is None
    assert weights.fetch("disc", folder).path.read_bytes() == CONTENT
    assert server.downloads[-1].range == f"bytes={6 * CHUNK}-"


def test_a_part_of_an_older_file_is_not_mixed_with_a_newer_one(server: WeightServer, folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        weights.fetch("unhashed", folder, _interrupt_after(3 * CHUNK))
    server.files["/disc.pth"] = CONTENT[::-1]
    assert weights.fetch("unhashed", folder).path.read_bytes() == CONTENT[::-1]
    assert server.downloads[-1].range == ""


def test_a_part_that_was_complete_already_is_used(server: WeightServer, folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        weights.fetch("disc", folder, _interrupt_after(3 * CHUNK))
    (part,) = folder.glob(".partial/disc/*/disc.pth.part")
    part.write_bytes(CONTENT)
    assert weights.fetch("disc", folder).sha256 == SHA256
    assert len(server.downloads) == 1


@pytest.mark.parametrize("content", [CONTENT, CONTENT + b"more"])
def test_a_part_beyond_the_end_is_thrown_away(server: WeightServer, folder: Path, content: bytes) -> None:
    server.heads = False  # the size is not known before
    with pytest.raises(KeyboardInterrupt):
        weights.fetch("disc", folder, _interrupt_after(3 * CHUNK))
    (part,) = folder.glob(".partial/disc/*/disc.pth.part")
    part.write_bytes(content)
    assert weights.fetch("disc", folder).path.read_bytes() == CONTENT


def test_a_server_without_ranges_sends_it_all_again(server: WeightServer, folder: Path) -> None:
    server.ranges = False
    server.cut_after = [5 * CHUNK]
    assert weights.fetch("disc", folder).path.read_bytes() == CONTENT
    assert server.downloads[1].range
    assert server.downloads[1].sent == len(CONTENT)


def test_a_connection_that_always_breaks_says_to_go_on_later(server: WeightServer, folder: Path) -> None:
    server.cut_after = [3 * CHUNK] + [0] * 20
    with pytest.raises(WeightsError, match=r"network failed.*weights fetch disc` again"):
        weights.fetch("disc", folder)
    server.cut_after = []
    assert weights.fetch("disc", folder).sha256 == SHA256
    assert server.downloads[-1].range == f"bytes={3 * CHUNK}-"


def test_a_wrong_hash_is_refused_and_removed(server: WeightServer, folder: Path) -> None:
    server.files["/disc.pth"] = b"x" + CONTENT[1:]
    got = hashlib.sha256(server.files["/disc.pth"]).hexdigest()
    with pytest.raises(WeightsError, match=f"expected {SHA256}, got {got}"):
        weights.fetch("disc", folder)
    assert [path for path in folder.rglob("disc.pth*") if path.is_file()] == []
    with pytest.raises(WeightsError, match="not on this machine"):
        weights.resolve("disc", folder)


def test_a_404_names_the_address_and_another_way(server: WeightServer, folder: Path) -> None:
    del server.files["/disc.pth"]
    with pytest.raises(WeightsError, match=r"/disc.pth answered 404.*example.org/disc.*weights add disc PATH"):
        weights.fetch("disc", folder)


def test_a_web_page_in_place_of_weights_is_refused(server: WeightServer, folder: Path, tmp_path: Path) -> None:
    server.files["/disc.pth"] = b"\n<!DOCTYPE html><html>Quota exceeded</html>"
    with pytest.raises(WeightsError, match="web page"):
        weights.fetch("unhashed", folder)
    (tmp_path / "page.pth").write_bytes(server.files["/disc.pth"])
    with pytest.raises(WeightsError, match="web page"):
        weights.add("unhashed", tmp_path / "page.pth", folder)


def test_no_server_is_said_plainly(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disc = Checkpoint("disc", "a test", "MIT", 1, "disc.pth", "http://127.0.0.1:9/disc.pth")
    monkeypatch.setitem(KNOWN, "disc", disc)
    with pytest.raises(WeightsError, match=r"network failed.*Without a network, `spectrabox weights add disc PATH`"):
        weights.fetch("disc", folder)
    with pytest.raises(WeightsError, match="network failed"):
        weights.fetch("facebook/dinov2-base", folder, endpoint="http://127.0.0.1:9")


def test_offline_mode_of_the_hub_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(WeightsError, match="HF_HUB_OFFLINE"):
        weights.fetch("facebook/dinov2-base", folder)


def test_two_fetches_at_once_download_once(server: WeightServer, folder: Path) -> None:
    server.pause = 0.5
    told: list[str] = []
    found: list[weights.Weights] = []
    threads = [
        threading.Thread(
            target=lambda: found.append(weights.fetch("disc", folder, lambda what, done, total: told.append(what)))
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1]
    assert len(server.downloads) == 1
    assert any("waiting" in what for what in told)


def test_without_a_published_hash_the_first_one_holds(server: WeightServer, folder: Path) -> None:
    fetched = weights.fetch("unhashed", folder)
    assert fetched.sha256 == SHA256
    fetched.path.write_bytes(b"damaged")
    server.files["/disc.pth"] = CONTENT[::-1]
    with pytest.raises(WeightsError, match=f"expected {SHA256}"):
        weights.fetch("unhashed", folder)
    server.files["/disc.pth"] = CONTENT
    assert weights.fetch("unhashed", folder).path.read_bytes() == CONTENT


def test_a_repository_of_the_hub_comes_without_its_pickles(server: WeightServer, folder: Path) -> None:
    name = "facebook/dinov2-base"
    server.repository(name, {"config.json": CONFIG, "model.safetensors": CONTENT, "pytorch_model.bin": b"pickle"})
    fetched = weights.fetch(name, folder, endpoint=server.url)
    assert {path.name: path.read_bytes() for path in fetched.path.iterdir()} == {
        "config.json": CONFIG, "model.safetensors": CONTENT,
    }  # fmt: skip
    assert weights.resolve(name, folder) == fetched
    assert f'"revision": "{COMMIT}"' in (folder / "facebook--dinov2-base" / "record.json").read_text()


def test_a_broken_download_from_the_hub_is_resumed(server: WeightServer, folder: Path) -> None:
    name = "someone/their-model"
    server.repository(name, {"config.json": CONFIG, "model.safetensors": CONTENT})
    with pytest.raises(KeyboardInterrupt):
        weights.fetch(name, folder, _interrupt_after(4 * CHUNK), endpoint=server.url)
    assert weights.listing(folder)[-1].checkpoint.name != name
    assert (weights.fetch(name, folder, endpoint=server.url).path / "model.safetensors").read_bytes() == CONTENT
    assert [request.path.rsplit("/")[-1] for request in server.downloads].count("config.json") == 1
    assert server.downloads[-1].range.startswith("bytes=")
    assert server.downloads[-1].sent < len(CONTENT)


def test_a_pinned_repository_is_asked_for_its_commit(server: WeightServer, folder: Path) -> None:
    commit = KNOWN["facebook/dinov2-small"].revision
    server.repository("facebook/dinov2-small", {"config.json": CONFIG, "model.safetensors": CONTENT}, commit)
    weights.fetch("facebook/dinov2-small", folder, endpoint=server.url)
    assert server.requests[0].path == f"/api/models/facebook/dinov2-small/revision/{commit}"


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_files_that_differ_from_what_the_hub_says_are_refused(server: WeightServer, folder: Path, file: str) -> None:
    server.repository("a/b", {"config.json": CONFIG, "model.safetensors": CONTENT})
    path = f"/a/b/resolve/{COMMIT}/{file}"
    server.files[path] = b"?" + server.files[path][1:]
    with pytest.raises(WeightsError, match=rf"{file} of a/b is not what it should be: expected \w+, got \w+"):
        weights.fetch("a/b", folder, endpoint=server.url)
    with pytest.raises(WeightsError, match="not on this machine"):
        weights.resolve("a/b", folder)


def test_a_repository_with_only_a_pickle_is_refused(server: WeightServer, folder: Path) -> None:
    server.repository("a/b", {"config.json": CONFIG, "pytorch_model.bin": b"pickle"})
    with pytest.raises(WeightsError, match=r"pytorch_model.bin and no model.safetensors"):
        weights.fetch("a/b", folder, endpoint=server.url)
    assert server.downloads == []


def test_a_gated_repository_says_how_to_get_in(server: WeightServer, folder: Path) -> None:
    server.repository("facebook/sam3", {"config.json": CONFIG, "model.safetensors": CONTENT})
    server.gated.add("facebook/sam3")
    with pytest.raises(WeightsError, match=r"huggingface.co/facebook/sam3 .*hf auth login"):
        weights.fetch("facebook/sam3", folder, endpoint=server.url)


def test_an_unknown_repository_is_named(server: WeightServer, folder: Path) -> None:
    with pytest.raises(WeightsError, match="no/such"):
        weights.fetch("no/such", folder, endpoint=server.url)


def test_no_token_goes_to_plain_servers(server: WeightServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.utils._headers.get_token", lambda: "hf_secret")
    server.repository("a/b", {"config.json": CONFIG, "model.safetensors": CONTENT})
    weights.fetch("disc", folder)
    assert {request.authorization for request in server.requests} == {""}
    server.requests.clear()
    weights.fetch("a/b", folder, endpoint=server.url)
    assert {request.authorization for request in server.requests} == {"Bearer hf_secret"}


def test_storage_that_the_hub_sends_us_to_resumes_and_sees_no_token(
    server: WeightServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.utils._headers.get_token", lambda: "hf_secret")
    server.repository("a/b", {"config.json": CONFIG, "model.safetensors": CONTENT})
    with weight_server() as storage:
        storage.files["/blob"] = CONTENT
        storage.cut_after = [5 * CHUNK]
        server.moved[f"/a/b/resolve/{COMMIT}/model.safetensors"] = f"{storage.url}/blob"
        weights.fetch("a/b", folder, endpoint=server.url)
    assert [(request.range, request.authorization) for request in storage.downloads] == [
        ("", ""), (f"bytes={5 * CHUNK}-", ""),
    ]  # fmt: skip
    assert server.requests[-1].authorization == "Bearer hf_secret"


def test_a_login_page_in_place_of_the_hub_is_said_plainly(server: WeightServer, folder: Path) -> None:
    server.files["/api/models/a/b/revision/main"] = b"<html>Welcome to our wireless network</html>"
    with pytest.raises(WeightsError, match=r"a/b was not fetched: the hub's answer makes no sense.*log-in page"):
        weights.fetch("a/b", folder, endpoint=server.url)


def test_a_damaged_file_is_noticed_before_use(server: WeightServer, folder: Path) -> None:
    fetched = weights.fetch("disc", folder)
    fetched.path.write_bytes(b"x" + CONTENT[1:])
    with pytest.raises(WeightsError, match=rf"damaged: expected the SHA-256 {SHA256}, got \w+.*weights fetch disc"):
        weights.resolve("disc", folder)
    assert weights.fetch("disc", folder).path.read_bytes() == CONTENT
    weights.resolve("disc", folder).path.unlink()
    with pytest.raises(WeightsError, match="is gone"):
        weights.resolve("disc", folder)


def test_verify_sees_damage_that_kept_size_and_time(server: WeightServer, folder: Path) -> None:
    fetched = weights.fetch("disc", folder)
    times = (fetched.path.stat().st_atime_ns, fetched.path.stat().st_mtime_ns)
    fetched.path.write_bytes(b"x" + CONTENT[1:])
    os.utime(fetched.path, ns=times)
    (finding,) = weights.verify(folder=folder)
    assert "damaged" in finding.problem
    assert weights.fetch("disc", folder).path.read_bytes() == CONTENT, "fetch repairs what verify finds"
    assert weights.verify("disc", folder) == [weights.Finding("disc", SHA256, "")]


def test_a_damaged_record_is_said_and_repaired(server: WeightServer, folder: Path) -> None:
    weights.fetch("disc", folder)
    (folder / "disc" / "record.json").write_text('{"name": ')
    with pytest.raises(WeightsError, match=r"record.json is damaged"):
        weights.resolve("disc", folder)
    assert "damaged" in weights.verify(folder=folder)[0].problem
    assert weights.fetch("disc", folder).sha256 == SHA256
    assert weights.verify(folder=folder)[0].problem == ""


def _interrupt_after(count: int) -> Callable[[str, int, int], None]:
    """A progress bar at which the user presses Ctrl-C once so many bytes are written."""

    def progress(what: str, done: int, total: int) -> None:
        if done > count:
            raise KeyboardInterrupt

    return progress
