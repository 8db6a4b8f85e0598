"""Weights are found by name or path, checked before use, and kept where they belong."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from labeling import weights
from labeling.checkpoints import KNOWN, Checkpoint
from labeling.weights import WeightsError

CONTENT = bytes(range(256)) * 4096  # 1 MiB
SHA256 = hashlib.sha256(CONTENT).hexdigest()
CONFIG = b'{"model_type": "dinov2"}'


@pytest.fixture
def disc(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a known checkpoint of one file whose hash is published."""
    one = Checkpoint("disc", "a test", "MIT", 1, "disc.pth", "http://127.0.0.1:9/disc.pth", sha256=SHA256)
    monkeypatch.setitem(KNOWN, "disc", one)
    return "disc"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "weights"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder as `save_pretrained` writes it."""
    place = tmp_path / "model"
    place.mkdir()
    (place / "config.json").write_bytes(CONFIG)
    (place / "model.safetensors").write_bytes(CONTENT)
    (place / "README.md").write_text("not part of it")
    return place


@pytest.mark.parametrize("name", ["videocutler", "facebook/dinov2-base", "facebook/sam3", "someone/their-model"])
def test_missing_weights_name_licence_and_commands(folder: Path, name: str) -> None:
    with pytest.raises(WeightsError) as caught:
        weights.resolve(name, folder)
    text = str(caught.value)
    assert f"`spectrabox weights fetch {name} --folder {folder}`" in text
    assert f"`spectrabox weights add {name} PATH --folder {folder}`" in text
    assert (KNOWN[name].licence if name in KNOWN else "https://huggingface.co/someone/their-model") in text
    assert ("hf auth login" in text) == (name == "facebook/sam3")


def test_a_misspelt_name_gets_a_suggestion(folder: Path) -> None:
    with pytest.raises(WeightsError, match="Did you mean videocutler"):
        weights.resolve("videocuttler", folder)


@pytest.mark.parametrize(
    "name", ["../evil", "a/../b", "..", "a/b/c", "/etc/passwd", "a--b", ".locks", "a\\b", "", "a\nb"]
)
def test_names_do_not_leave_the_cache(folder: Path, model: Path, name: str) -> None:
    for act in (lambda: weights.add(name, model, folder), lambda: weights.fetch(name, folder)):
        with pytest.raises(WeightsError, match="no name for weights"):
            act()
    assert not folder.exists()


def test_a_record_does_not_lead_out_of_its_folder(folder: Path, model: Path) -> None:
    weights.add("mine", model, folder)
    record = folder / "mine" / "record.json"
    record.write_text(record.read_text().replace('"config.json"', '"../../../secret"'))
    with pytest.raises(WeightsError, match="does not name files of its folder"):
        weights.resolve("mine", folder)


@pytest.mark.parametrize("link", [False, True])
def test_a_folder_is_added_and_works_offline(folder: Path, model: Path, link: bool) -> None:
    added = weights.add("facebook/dinov2-base", model, folder, link)
    assert sorted(path.name for path in added.path.iterdir()) == ["config.json", "model.safetensors"]
    assert (added.path / "model.safetensors").is_symlink() == link
    assert weights.resolve("facebook/dinov2-base", folder) == added
    assert added.sha256 == weights.resolve(model, folder).sha256, "the same weights, wherever they are"


def test_a_file_is_added_under_its_published_name(disc: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "download(1).pth").write_bytes(CONTENT)
    added = weights.add(disc, tmp_path / "download(1).pth", folder)
    assert added == weights.resolve(disc, folder)
    assert (added.path.name, added.sha256) == ("disc.pth", SHA256)
    assert weights.fetch(disc, folder) == added, "what is here needs no network"


def test_a_wrong_file_is_not_added(disc: str, folder: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "other.pth").write_bytes(b"other")
    cases = {
        disc: (tmp_path / "other.pth", f"expected the hash {SHA256}, got"),
        "videocutler": (model, "videocutler is one file, videocutler_m2f_rn50.pth"),
        "facebook/dinov2-base": (tmp_path / "other.pth", "is a folder with config.json"),
        "mine": (tmp_path / "gone", "There is no file or folder"),
    }
    for name, (path, problem) in cases.items():
        with pytest.raises(WeightsError, match=problem):
            weights.add(name, path, folder)
    assert not any(line.path for line in weights.listing(folder))


def test_adding_again_replaces_what_was_there(folder: Path, model: Path) -> None:
    first = weights.add("mine", model, folder)
    (model / "model.safetensors").write_bytes(b"newer")
    second = weights.add("mine", model, folder)
    assert first.sha256 != second.sha256
    assert weights.resolve("mine", folder) == second
    with pytest.raises(WeightsError, match="very copy"):
        weights.add("mine", second.path, folder)


@pytest.mark.parametrize(
    ("remove", "problem"),
    [
        ("model.safetensors", r"pytorch_model.bin and no model.safetensors.*save_pretrained"),
        ("config.json", r"no config.json"),
    ],
)
def test_incomplete_folders_are_refused(folder: Path, model: Path, remove: str, problem: str) -> None:
    (model / "pytorch_model.bin").write_bytes(b"pickle")
    weights.resolve(model, folder)
    (model / remove).unlink()
    for act in (lambda: weights.resolve(model, folder), lambda: weights.add("mine", model, folder)):
        with pytest.raises(WeightsError, match=problem):
            act()


def test_a_path_is_used_where_it_is(folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(model.parent)
    (model.parent / "own.pth").write_bytes(CONTENT)
    for given in ("own.pth", "./own.pth", model.parent / "own.pth", str(model.parent / "own.pth")):
        found = weights.resolve(given, folder)
        assert (found.path, found.sha256, found.name) == (model.parent / "own.pth", SHA256, "own.pth")
    assert weights.resolve("model", folder).path == model
    for missing in ("./gone", "gone.pth", "/no/such/folder", Path("gone")):
        with pytest.raises(WeightsError, match="There is no file or folder"):
            weights.resolve(missing, folder)


def test_a_known_name_is_not_taken_for_a_folder_beside_it(
    folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    shutil.copytree(model, model.parent / "facebook" / "dinov2-base")
    with pytest.raises(WeightsError, match="not on this machine"):
        weights.resolve("facebook/dinov2-base", folder)
    assert weights.resolve("./facebook/dinov2-base", folder).path == model.parent / "facebook" / "dinov2-base"


def test_the_hash_of_a_folder_covers_weights_and_config_alone(folder: Path, model: Path) -> None:
    before = weights.resolve(model, folder).sha256
    (model / "README.md").write_text("changed")
    assert weights.resolve(model, folder).sha256 == before
    (model / "config.json").write_bytes(CONFIG + b" ")
    changed = weights.resolve(model, folder).sha256
    assert changed != before
    (model / "model.safetensors").write_bytes(CONTENT[::-1])
    assert weights.resolve(model, folder).sha256 not in (before, changed)


def test_unchanged_files_are_read_once(folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _grow_old(model)
    added, found = weights.add("mine", model, folder), weights.resolve(model, folder)
    read = _count_reads(monkeypatch)
    assert weights.resolve("mine", folder) == added
    assert weights.resolve(model, folder) == found
    assert read == []
    weights.verify("mine", folder)
    assert len(read) == 2, "verify reads them all"


def test_a_file_that_may_still_be_written_is_read_each_time(
    folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = _count_reads(monkeypatch)
    weights.resolve(model, folder)
    weights.resolve(model, folder)
    assert len(read) == 4


def test_a_copied_cache_folder_works_on_another_machine(
    folder: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = weights.add("facebook/dinov2-base", model, folder)
    there = tmp_path / "usb stick"
    shutil.copytree(folder, there, copy_function=shutil.copyfile)
    for path in there.rglob("*"):
        if path.is_file():
            os.utime(path, (1, 1))
    found = weights.resolve("facebook/dinov2-base", there)
    assert (found.sha256, found.path) == (added.sha256, there / "facebook--dinov2-base" / "files")
    read = _count_reads(monkeypatch)
    weights.resolve("facebook/dinov2-base", there)
    assert read == [], "its new times are noted"


def test_a_read_only_cache_is_enough_for_use(folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    added = weights.add("mine", model, folder)
    _grow_old(added.path)
    _grow_old(model)

    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", refuse)
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert weights.resolve("mine", folder) == added
    assert weights.resolve(model, folder).sha256 == added.sha256


def test_the_listing_has_all_known_and_all_present(folder: Path, model: Path) -> None:
    assert [line.checkpoint.name for line in weights.listing(folder)] == list(KNOWN)
    weights.add("mine", model, folder)
    weights.add("facebook/dinov2-base", model, folder)
    lines = {line.checkpoint.name: line.path for line in weights.listing(folder)}
    assert set(lines) == {*KNOWN, "mine"}
    assert {name for name, path in lines.items() if path} == {"mine", "facebook/dinov2-base"}


def test_the_table_says_what_a_user_must_know() -> None:
    assert "non-commercial" in KNOWN["videocutler"].licence
    assert KNOWN["facebook/sam3"].gated
    for name, one in KNOWN.items():
        assert name == one.name
        assert one.licence
        assert one.megabytes
        assert one.home.startswith("https://")
        assert bool(one.file) == one.url.startswith("https://") == ("/" not in name)
        assert len(one.revision) in (0, 40)


def test_every_known_checkpoint_is_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "weights.md").read_text()
    for one in KNOWN.values():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{one.name}` |"))
        assert one.licence in row
        assert one.size.removeprefix("about ") in row


def test_the_default_folder_is_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *a, **k: tmp_path / a[0])
    assert weights.cache_folder() == tmp_path / "spectrabox" / "weights"
    assert weights.cache_folder(Path("~/w")) == Path.home() / "w"


def _count_reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are hashed from now on."""
    from labeling import weight_cache

    read: list[Path] = []
    real = weight_cache.sha256_of
    monkeypatch.setattr(weight_cache, "sha256_of", lambda path: (read.append(path), real(path))[1])
    return read


def _grow_old(place: Path) -> None:
    for path in place.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
