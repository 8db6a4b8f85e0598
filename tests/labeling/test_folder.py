"""Every video of a folder is found once, under a safe name that stays."""

import os
import re
import unicodedata

import pytest

from labeling.folder import find_videos, video_id
from labeling.video import Video, VideoError
from tests.labeling import odd_videos

ODD_NAMES = [
    "with space.mp4", "it's \"quoted\".mp4", "Käse.mp4", "日本.mp4", "line\nbreak.mp4", "-dash.mp4", "a..b.mp4",
    "a:b.mp4", "%03d.mp4", "$(x);&|.mp4", "__mark.mp4", "zarr.json.mp4", "x" * 200 + ".mp4", "tab\t.mp4", "#?.mp4",
    "back\\slash.mp4",
]  # fmt: skip


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    return path


def relatives(folder):
    return [source.relative for source in find_videos(folder).sources]


def test_videos_are_found_recursively_whatever_the_case_of_their_suffix(tmp_path):
    for name in ["a.mp4", "b.MOV", "deep/er/c.Avi", "d.mkv", "e.webm", "f.GIF", "g.m4v", "note.txt", "h.mp4.part"]:
        touch(tmp_path / name)
    assert sorted(relatives(tmp_path)) == ["a.mp4", "b.MOV", "d.mkv", "deep/er/c.Avi", "e.webm", "f.GIF", "g.m4v"]


def test_what_other_programs_hide_is_left_alone(tmp_path):
    for name in [".hidden.mp4", "._a.mp4", ".cache/b.mp4", "labels.zarr/c.mp4", "d.mp4"]:
        touch(tmp_path / name)
    assert relatives(tmp_path) == ["d.mp4"]


def test_one_file_is_a_folder_of_one(tmp_path):
    touch(tmp_path / "b.mp4")
    path = touch(tmp_path / "a.weird")
    folder = find_videos(path)
    assert (folder.root, [s.relative for s in folder.sources]) == (tmp_path, ["a.weird"])


def test_a_link_to_a_file_keeps_its_own_name(tmp_path):
    target = touch(tmp_path / "elsewhere" / "001.mp4")
    (tmp_path / "link.mp4").symlink_to(target)
    assert [s.id for s in find_videos(tmp_path / "link.mp4").sources] == ["link.mp4"]


def test_nothing_there_is_said_plainly(tmp_path):
    with pytest.raises(FileNotFoundError, match="Give a folder"):
        find_videos(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        find_videos("~nobody-of-this-name/videos")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_read_and_get_safe_ids(tmp_path, name):
    path = odd_videos.video(tmp_path / "plain.mp4")
    path.rename(tmp_path / name)
    (source,) = find_videos(tmp_path).sources
    assert source.relative == name
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}", source.id)
    assert len(list(Video(source.path).frames())) == 12


def test_a_name_that_is_no_text_is_reported(tmp_path):
    touch(tmp_path / "good.mp4")
    (tmp_path / os.fsdecode(b"caf\xe9.mp4")).write_bytes(b"x")
    folder = find_videos(tmp_path)
    assert [s.relative for s in folder.sources] == ["good.mp4"]
    ((name, reason),) = folder.unreadable.items()
    assert name == r"caf\xe9.mp4"
    assert "Rename it" in reason
    (name + reason).encode()


def test_ids_are_unique_where_safe_names_would_collide(tmp_path):
    names = [
        "a b.mp4", "a_b.mp4", "a  b.mp4", "a/b.mp4", "a__b.mp4", "ä.mp4", "ö.mp4", "x" * 150 + "1.mp4",
        "x" * 150 + "2.mp4", unicodedata.normalize("NFC", "é.mp4"), unicodedata.normalize("NFD", "é.mp4"),
        "-.mp4", "...mp4", "sub/..mp4",
    ]  # fmt: skip
    for name in names:
        touch(tmp_path / name)
    sources = find_videos(tmp_path).sources
    visible = [name for name in names if not name.split("/")[-1].startswith(".")]
    assert sorted(s.relative for s in sources) == sorted(visible)
    assert len({s.id for s in sources}) == len(visible)


@pytest.mark.parametrize(
    "relative", ["..", ".", "../../etc/passwd", "/abs.mp4", "__x", "zarr.json", "", "...", "a/../b.mp4"]
)
def test_no_id_leads_out_of_the_store_or_takes_a_name_of_zarr(relative):
    name = video_id(relative)
    assert "/" not in name
    assert not name.startswith((".", "-", "__"))
    assert name not in {"zarr.json", ""}


def test_ids_do_not_depend_on_the_other_files(tmp_path):
    touch(tmp_path / "a b.mp4")
    before = find_videos(tmp_path).sources[0].id
    for name in ["a_b.mp4", "a/b.mp4", "A B.mp4"]:
        touch(tmp_path / name)
    assert before in {s.id for s in find_videos(tmp_path).sources if s.relative == "a b.mp4"}


def test_links_are_followed_but_not_in_circles(tmp_path):
    root = tmp_path / "root"
    touch(root / "real" / "a.mp4")
    touch(tmp_path / "outside" / "b.mp4")
    (root / "real" / "up").symlink_to(root)
    (root / "above").symlink_to(tmp_path)
    (root / "twin").symlink_to(root / "real")
    (root / "data").symlink_to(tmp_path / "outside")
    (tmp_path / "outside" / "back").symlink_to(root)
    (root / "file.mp4").symlink_to(tmp_path / "outside" / "b.mp4")
    (root / "self").symlink_to("self")
    assert sorted(relatives(root)) == ["data/b.mp4", "file.mp4", "real/a.mp4"]


@pytest.mark.parametrize("target", ["gone.mp4", "broken.mp4"])
def test_a_link_to_nothing_or_to_itself_is_reported_when_it_is_read(tmp_path, target):
    (tmp_path / "broken.mp4").symlink_to(target)
    (source,) = find_videos(tmp_path).sources
    with pytest.raises(VideoError, match=r"broken\.mp4.*link"):
        Video(source.path)


def test_folders_of_pictures_are_videos(tmp_path):
    odd_videos.picture_folder(tmp_path / "one")
    odd_videos.picture_folder(tmp_path / "deep" / "two", suffix=".jpg", prefix="")
    odd_videos.picture_folder(tmp_path / "lone", [1])
    assert sorted(relatives(tmp_path)) == ["deep/two", "one"]


def test_a_folder_of_pictures_given_itself_goes_by_its_name(tmp_path):
    folder = find_videos(odd_videos.picture_folder(tmp_path / "walk"))
    assert [(s.id, s.relative) for s in folder.sources] == [("walk", "walk")]
    assert folder.root == tmp_path


def test_pictures_beside_videos_do_not_hide_the_videos(tmp_path):
    odd_videos.picture_folder(tmp_path, prefix="screenshot")
    touch(tmp_path / "a.mp4")
    touch(tmp_path / "sub" / "b.mp4")
    assert sorted(relatives(tmp_path)) == ["a.mp4", "sub/b.mp4"]


def test_pictures_above_other_videos_are_one_more_video(tmp_path):
    odd_videos.picture_folder(tmp_path)
    touch(tmp_path / "sub" / "b.mp4")
    folder = find_videos(tmp_path)
    assert sorted(s.relative for s in folder.sources) == [".", "sub/b.mp4"]
    assert all((folder.root / s.relative).resolve() == s.path for s in folder.sources)


def test_a_folder_that_may_not_be_opened_is_reported_and_the_rest_goes_on(tmp_path):
    touch(tmp_path / "a.mp4")
    locked = touch(tmp_path / "locked" / "b.mp4").parent
    locked.chmod(0)
    answer = odd_videos.without_rights(tmp_path, lambda: repr((relatives(tmp_path), find_videos(tmp_path).unreadable)))
    locked.chmod(0o755)
    assert "['a.mp4']" in answer
    assert "Permission denied" in answer
    assert "chmod" in answer
