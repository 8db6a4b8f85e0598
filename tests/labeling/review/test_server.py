"""What the review page asks for, and who may ask."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from starlette.testclient import TestClient

from labeling import open_store
from labeling.locks import locked
from labeling.review.desk import Conflict, Desk
from labeling.review.edits import EDIT
from labeling.review.frames import Pictures
from labeling.review.log import Busy
from labeling.review.server import _as_far_as, application, serve
from labeling.run import RunError
from labeling.store import Store
from labeling.video import Frame, Video, VideoError

MakeStore = Callable[..., Store]
V = "squares.mp4"
AT = "http://127.0.0.1:4300"
TOKEN = {"x-spectrabox-token": "word"}
MERGE = {"kind": "merge-tracks", "video": V, "tracks": [1, 2]}


@pytest.fixture
def store(make_store: MakeStore) -> Store:
    return make_store()


@pytest.fixture
def client(store: Store) -> Iterator[TestClient]:
    desk = Desk(store.path, author="Ada")
    pictures = Pictures(desk.videos_folder)
    with TestClient(application(desk, pictures, token="word"), base_url=AT) as client:
        yield client
    pictures.close()


def post(client: TestClient, edit: dict | None, what: str = "edit", version: str = ""):
    body = {"version": version or client.get("/api/store").json()["version"]}
    return client.post(f"/api/{what}", json=body | ({"edit": edit} if edit else {}), headers=TOKEN)


def frames(content: bytes) -> list[tuple[int, np.ndarray]]:
    found = []
    while content:
        number, length = struct.unpack_from("<II", content)
        found.append((number, cv2.imdecode(np.frombuffer(content[8 : 8 + length], np.uint8), cv2.IMREAD_COLOR_RGB)))
        content = content[8 + length :]
    return found


def test_the_page_knows_videos_categories_tracks_and_boxes(client: TestClient, store: Store) -> None:
    overview = client.get("/api/store").json()
    assert [(video["id"], video["frames"], video["checked"]) for video in overview["videos"]] == [(V, 24, "")]
    assert [(kind["name"], kind["tracks"]) for kind in overview["categories"]] == [
        ("object-1", 1), ("object-2", 1), ("unassigned", 0),
    ]  # fmt: skip
    sheet = client.get(f"/api/videos/{V}").json()
    assert sheet["tracks"]["instance"] == [1, 2, 7]
    assert sheet["tracks"]["kept"] == [True, True, False]
    assert sheet["tracks"]["spans"][1] == [0, 8, 16, 24]
    assert sheet["tracks"]["why"][2] == "static stays within 0.4 pixels"
    data = client.get(f"/api/videos/{V}/boxes/0").content
    count, boxes = struct.unpack_from("<II", data)
    begin = np.frombuffer(data, "<u4", count + 1, 8)
    track = np.frombuffer(data, "<u4", boxes, 8 + 4 * (count + 1))
    edges = np.frombuffer(data, "<f4", 4 * boxes, 8 + 4 * (count + 1 + boxes)).reshape(-1, 4)
    assert track[begin[10] : begin[11]].tolist() == [0, 2], "the second square is away"
    np.testing.assert_array_equal(edges[begin[3]], store[V].boxes[3, 0])
    assert count == 24
    assert len(client.get(f"/api/videos/{V}/boxes/9").content) == 12, "beyond the end there are no frames"


def test_frames_are_those_that_were_asked_for_in_any_order(client: TestClient) -> None:
    wanted = [*range(5, 9), 20, 19, 18, 3, *range(0, 4), 23]
    for number in wanted:
        ((found, image),) = frames(client.get(f"/api/videos/{V}/frames?begin={number}&end={number + 1}").content)
        assert found == number
        assert image.shape == (64, 96, 3)
        red = (image[:, :, 0] > 150) & (image[:, :, 2] < 110)
        assert np.flatnonzero(red.any(axis=0))[0] == pytest.approx(2 * number, abs=1), "the red square moves right"
    whole = frames(client.get(f"/api/videos/{V}/frames?begin=10&end=99&side=32").content)
    assert [number for number, _ in whole] == list(range(10, 24))
    assert client.get(f"/api/videos/{V}/frames?begin=24&end=25").status_code == 404


def test_pictures_are_held_within_bounds(store: Store) -> None:
    desk = Desk(store.path)
    pictures = Pictures(desk.videos_folder, held=3000)
    wanted = desk.wanted(V)
    assert wanted is not None
    list(pictures.stretch(wanted, 0, 24, 160))
    assert pictures._bytes <= 3000
    assert sum(map(len, pictures._held.values())) == pictures._bytes
    pictures.close()


def test_who_jumps_holds_up_neither_who_plays_nor_who_opens_other_videos(make_store: MakeStore, monkeypatch) -> None:
    desk = Desk(make_store(*(f"{name}.mp4" for name in "abcdefg")).path)
    jumped, may_go_on = threading.Event(), threading.Event()

    class Slow(Video):
        def frames(self, start: int = 0) -> Iterator[Frame]:
            if start == 12 and self.path.name == "a.mp4":
                jumped.set()
                assert may_go_on.wait(60)
            return super().frames(start)

    monkeypatch.setattr("labeling.review.frames.Video", Slow)
    monkeypatch.setattr("labeling.review.frames.NEAR", 6)
    pictures, got = Pictures(desk.videos_folder), []
    play = pictures.stretch(desk.wanted("a.mp4"), 0, 24, 640)
    got.append(next(play))
    jump = threading.Thread(target=lambda: got.extend(pictures.stretch(desk.wanted("a.mp4"), 12, 13, 640)), daemon=True)
    jump.start()
    assert jumped.wait(60)

    def go_on() -> None:
        got.extend(next(play) for _ in range(8))
        for id in "bcdefg":  # more than stay open
            got.extend(pictures.stretch(desk.wanted(f"{id}.mp4"), 3, 4, 640))
        got.extend(play)

    others = threading.Thread(target=go_on, daemon=True)
    others.start()
    others.join(60)
    assert [struct.unpack_from("<I", part)[0] for part in got] == [*range(9), *[3] * 6, *range(9, 24)]
    may_go_on.set()
    jump.join(60)
    assert struct.unpack_from("<I", got[-1])[0] == 12
    pictures.close()


def test_frames_end_where_a_video_does_and_the_next_one_says_why(store: Store) -> None:
    desk = Desk(store.path)
    wanted = desk.wanted(V)
    assert wanted is not None
    pictures, longer = Pictures(desk.videos_folder), replace(wanted, frames=30)
    assert len(list(_as_far_as(pictures.stretch(longer, 20, 30, 160)))) == 4
    with pytest.raises(VideoError, match=r"squares.mp4 has no frame 24: it is not the video that was labeled"):
        next(pictures.stretch(longer, 24, 30, 160))
    pictures.close()


def test_a_port_that_is_taken_is_named(store: Store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RunError, match=rf"127.0.0.1:{port} cannot be used .* Choose another --port"):
            serve(Desk(store.path), "127.0.0.1", port, print)


def test_a_host_that_is_none_is_named(store: Store) -> None:
    with pytest.raises(RunError, match=r"no such host:4300 cannot be used .* Choose another --host"):
        serve(Desk(store.path), "no such host", 4300, print)


@pytest.mark.parametrize("author", ["a" * 81, "two\nlines"])
def test_an_author_is_a_name(store: Store, author: str) -> None:
    with pytest.raises(RunError, match="--author is a name"):
        Desk(store.path, author=author)


def test_many_readers_at_once_get_their_own_frames(client: TestClient) -> None:
    wrong: list[int] = []

    def read(begin: int) -> None:
        answer = client.get(f"/api/videos/{V}/frames?begin={begin}&end={begin + 6}&side=160")
        if [number for number, _ in frames(answer.content)] != list(range(begin, begin + 6)):
            wrong.append(begin)

    threads = [threading.Thread(target=read, args=(begin,)) for begin in (0, 12, 3, 18, 7, 15)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_video_that_is_not_there_or_another_one_is_named(client: TestClient, store: Store, tmp_path: Path) -> None:
    path = tmp_path / "videos" / V
    content = path.read_bytes()
    path.unlink()
    answer = client.get(f"/api/videos/{V}/frames?begin=0&end=1")
    assert answer.status_code == 404
    assert "is not there. Say where the videos are with --videos" in answer.json()["error"]
    path.write_bytes(content + b"\0" * 8)
    answer = client.get(f"/api/videos/{V}/frames?begin=0&end=1")
    assert "not the video that was labeled" in answer.json()["error"]
    path.write_bytes(content)
    assert client.get(f"/api/videos/{V}/frames?begin=0&end=1").status_code == 200, "put back, it is read again"


def test_an_edit_is_saved_with_its_author_and_time_and_can_be_undone(client: TestClient, store: Store) -> None:
    answer = post(client, MERGE)
    assert answer.json()["words"] == "squares.mp4: track 2 merged into 1"
    assert open_store(store.path)[V].tracks.instance.tolist() == [1]
    (line,) = client.get("/api/store").json()["history"]
    assert line["by"] == "Ada"
    assert line["at"].endswith("Z") or line["at"].endswith("+00:00")
    assert post(client, None, "undo").json()["words"] == "squares.mp4: track 2 merged into 1"
    assert open_store(store.path)[V].tracks.instance.tolist() == [1, 2]
    assert post(client, None, "undo").status_code == 422
    assert post(client, None, "redo").status_code == 200
    assert open_store(store.path)[V].tracks.instance.tolist() == [1]


def test_who_saw_an_older_state_is_told_what_others_did(client: TestClient, store: Store) -> None:
    seen = client.get("/api/store").json()["version"]
    other = Desk(store.path, author="Bo")
    other.edit(EDIT.validate_python({"kind": "rename-category", "category": 0, "name": "ball"}), other.version)
    answer = post(client, MERGE, version=seen)
    assert answer.status_code == 409
    assert "category 1 renamed to ball by Bo" in answer.json()["error"]
    assert len(open_store(store.path)[V].tracks) == 2, "nothing was done"
    assert client.get("/api/version").json()["version"] != seen
    assert post(client, MERGE).status_code == 200


def test_edits_of_two_reviewers_at_once_are_all_kept(store: Store) -> None:
    desks = [Desk(store.path, author=str(n)) for n in range(3)]
    trouble: list[Exception] = []

    def work(desk: Desk) -> None:
        for turn in range(4):
            name = {"kind": "rename-category", "category": 0, "name": f"{desk.author}-{turn}"}
            while True:
                try:
                    desk.edit(EDIT.validate_python(name), desk.version)
                    break
                except Conflict:
                    desk.refresh()
                except Exception as error:
                    trouble.append(error)
                    return

    threads = [threading.Thread(target=work, args=(desk,)) for desk in desks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trouble == []
    review = open_store(store.path).review
    assert review is not None
    names = [entry.edit.name for entry in review.log.done if entry.edit and entry.edit.kind == "rename-category"]
    assert sorted(names) == sorted(f"{n}-{turn}" for n in range(3) for turn in range(4))


def test_a_store_that_is_being_labeled_is_not_edited(client: TestClient, store: Store) -> None:
    with locked(store.path):
        answer = post(client, MERGE)
        assert answer.status_code == 423
        assert "is being labeled right now" in answer.json()["error"]
        assert client.get("/api/store").json()["labeled_by"]
        with pytest.raises(Busy, match="Review it when that is done"):
            Desk(store.path)
    assert post(client, MERGE).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:4300", "127.0.0.1.evil.example:4300", ""])
def test_other_names_that_lead_here_are_refused(client: TestClient, host: str) -> None:
    for path in ("/", "/api/store", f"/api/videos/{V}/frames?begin=0&end=1"):
        answer = client.get(path, headers={"host": host})
        assert answer.status_code == 403
        assert "word" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1:4300", "localhost:9", "[::1]:4300"])
def test_this_machine_is_let_in(client: TestClient, host: str) -> None:
    assert client.get("/api/version", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-spectrabox-token": "guess"},
        TOKEN | {"origin": "http://evil.example"},
        TOKEN | {"origin": "null"},
        TOKEN | {"origin": "http://127.0.0.1:9999"},
        TOKEN | {"sec-fetch-site": "cross-site"},
    ],
)
def test_other_sites_cannot_edit(client: TestClient, store: Store, headers: dict[str, str]) -> None:
    version = client.get("/api/store").json()["version"]
    answer = client.post("/api/edit", json={"version": version, "edit": MERGE}, headers=headers)
    assert answer.status_code == 403
    assert open_store(store.path).review is None


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py", "/static/%2e%2e%2fserver.py", "/static/..%2f..%2fstore.py", "/static/index.html",
        "/api/videos/..%2f..%2fsecret/frames?begin=0&end=1", "/api/videos/%2e%2e", "/docs", "/openapi.json",
        "/api/videos/squares.mp4/boxes/-1", "/api/videos/other",
    ],
)  # fmt: skip
def test_nothing_else_can_be_had(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_a_store_from_elsewhere_cannot_lead_out_of_the_folder(misled_store: tuple[Store, str]) -> None:
    store, _ = misled_store
    desk = Desk(store.path)
    with TestClient(application(desk, Pictures(desk.videos_folder), token="word"), base_url=AT) as client:
        answer = client.get("/api/videos/z.mp4/frames?begin=0&end=1")
        assert answer.status_code == 404
        assert "leads out of" in answer.json()["error"]


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"[]", b'{"version": "0"}', b'{"version": "0", "edit": {"kind": "no"}}',
        b'{"version": "0", "edit": {"kind": "drop-tracks", "video": "squares.mp4", "tracks": []}}',
        b'{"version": "0", "edit": {"kind": "rename-category", "category": 0, "name": "a\\u0000"}}',
    ],
)  # fmt: skip
def test_nonsense_is_answered_with_a_sentence(client: TestClient, body: bytes) -> None:
    answer = client.post("/api/edit", content=body, headers=TOKEN | {"content-type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["error"]


def test_a_body_that_is_too_large_is_refused(client: TestClient) -> None:
    assert client.post("/api/edit", content=b"x" * (2 << 20), headers=TOKEN).status_code == 413


def test_the_page_may_load_nothing_from_elsewhere(client: TestClient) -> None:
    headers = client.get("/").headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert client.get("/static/app.js").headers["content-type"].startswith("text/javascript")
