"""What comes from others runs nothing, leads nowhere else, and is shown as text.

Names in pages and Markdown are tested beside those: test_report.py, test_page.py, test_markdown.py, test_run_report.py,
test_evaluate.py, test_serve.py; broken files of all kinds in tests/fuzz.
"""

from __future__ import annotations

import ast
import inspect
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import zarr

import flows
import labeling
import training
from flows import cli, serve
from labeling import open_store
from labeling.actions import read_actions
from labeling.config import load_config
from labeling.export import FORMATS, export
from labeling.folder import video_id
from labeling.overlay import write_overlays
from labeling.problems import RunError, VideoError
from labeling.report import write_report
from labeling.review.server import application
from labeling.run import label_folder
from labeling.settings_files import ConfigError
from labeling.store import Store
from labeling.weight_cache import WeightsError, folder_name
from tests.labeling.conftest import build_store
from tests.labeling.odd_videos import pictures, video
from tests.training.tiny_run import tiny_config, tiny_dataset
from training import checkpoint, load
from training.config import TrainError
from training.config import load_config as load_train_config
from training.manifest import ManifestError, load_manifest
from training.trainer import train

PACKAGES = (labeling, training, flows)


class Trap:
    """Touches a file if it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Every call in the product, with where it is."""
    for package in PACKAGES:
        for file in Path(package.__path__[0]).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call):
                    yield f"{file}:{node.lineno}", node


FORBIDDEN = {
    "eval", "exec", "compile", "__import__", "pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.loads",
    "shelve.open", "joblib.load", "dill.load", "pandas.read_pickle", "yaml.load", "yaml.unsafe_load", "yaml.full_load",
    "os.system", "os.popen", "shutil.unpack_archive", "tarfile.open", "zipfile.ZipFile", "hydra.utils.instantiate",
}  # fmt: skip


def test_nothing_in_the_code_unpickles_evaluates_or_unpacks() -> None:
    found = list(calls())
    assert len(found) > 5000
    for where, call in found:
        name, given = ast.unparse(call.func), {word.arg: ast.unparse(word.value) for word in call.keywords}
        assert name not in FORBIDDEN, where
        if name == "torch.load":
            assert given.get("weights_only") == "True", where
        if name == "np.load":
            assert given.get("allow_pickle", "False") == "False", where
        if name.startswith("subprocess."):
            assert given.get("shell", "False") == "False", where
        if name == "Environment":
            assert given.get("autoescape") == "True", where
        assert given.get("trust_remote_code", "False") == "False", where


def test_actions_with_a_pickle_in_them_are_not_unpickled(tmp_path: Path) -> None:
    file = tmp_path / "clip.actions.npy"
    np.save(file, np.array([[Trap(tmp_path / "sprung")]], dtype=object), allow_pickle=True)
    with pytest.raises(VideoError, match="cannot be read as a table of actions"):
        read_actions(file)
    assert not (tmp_path / "sprung").exists()


def test_weights_that_hold_more_than_weights_run_nothing(tmp_path: Path) -> None:
    from labeling.trackers.sam2_native import _weights
    from training.models.released import import_weights

    path = tmp_path / "weights.pt"
    torch.save({"model": Trap(tmp_path / "sprung")}, path)
    with pytest.raises(WeightsError, match="is no SAM 2 checkpoint"):
        _weights(path)
    with pytest.raises(Exception, match="Weights only load failed"):
        import_weights(path)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.slow
def test_a_folder_of_weights_cannot_bring_code_of_its_own(tmp_path: Path) -> None:
    from labeling.embeddings.dinov2_network import _load

    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / "config.json").write_text('{"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config"}}')
    (tmp_path / "mine.py").write_text(f"from pathlib import Path\nPath({str(tmp_path / 'sprung')!r}).touch()\n")
    with pytest.raises(WeightsError, match="cannot be loaded"):
        _load(tmp_path)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("reader", [load_manifest, load_config, load_train_config])
def test_yaml_makes_plain_values_only(tmp_path: Path, reader: Callable[[Path], object]) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(
        f"name: !!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path ['{tmp_path}/sprung']]\n"
    )
    with pytest.raises((ManifestError, ConfigError), match="is not valid YAML"):
        reader(file)
    assert not (tmp_path / "sprung").exists()


@pytest.fixture(scope="module")
def labeled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a video and its labels; to be copied."""
    folder = tmp_path_factory.mktemp("labeled")
    (folder / "videos").mkdir()
    video(folder / "videos" / "one.mp4", pictures(12))
    label_folder(folder / "videos", folder / "labels.zarr", workers=1)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("part", ["videos", "stages", "vocabulary", "videos/one.mp4", "stages/one.mp4"])
def test_a_link_in_a_store_leads_no_write_outside(labeled: Path, tmp_path: Path, part: str) -> None:
    shutil.copytree(labeled, tmp_path / "copy")
    store = tmp_path / "copy" / "labels.zarr"
    outside = (store / part).rename(tmp_path / "outside")
    (outside / "left.partial").touch()  # what a run tidies up in its store
    (store / part).symlink_to(outside)
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    with pytest.raises(RunError, match=f"{part} is a link, and nothing is written through links"):
        label_folder(tmp_path / "copy" / "videos", store, refit=True)
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_metadata_that_is_a_link_is_replaced_and_what_it_leads_to_left_alone(labeled: Path, tmp_path: Path) -> None:
    shutil.copytree(labeled, tmp_path / "copy")
    store = tmp_path / "copy" / "labels.zarr"
    outside = (store / "zarr.json").rename(tmp_path / "outside.json")
    (store / "zarr.json").symlink_to(outside)
    before = outside.read_bytes()
    zarr.open_group(str(store), mode="r+").attrs["profile"] = "changed"
    assert outside.read_bytes() == before
    assert not (store / "zarr.json").is_symlink()


def planted(folder: Path, outside: Path, *names: str) -> None:
    """Links of these names in a folder, all to one file that nobody may change."""
    folder.mkdir(parents=True, exist_ok=True)
    outside.write_text("mine")
    for name in names:
        (folder / name).symlink_to(outside)


def test_links_in_the_folder_of_a_report_or_overlay_are_not_written_through(tmp_path: Path) -> None:
    store, outside = build_store(tmp_path), tmp_path / "outside.txt"
    planted(tmp_path / "out", outside, "index.html", ".index.html.part", "squares.mp4", ".squares.part.mp4")
    page = write_report(Store(store.path), tmp_path / "out")
    (film,) = write_overlays(Store(store.path), tmp_path / "out")
    assert outside.read_text() == "mine"
    assert not page.is_symlink()
    assert not film.is_symlink()


@pytest.mark.parametrize("name", ["csv", "coco"])
def test_an_export_replaces_a_link_and_not_what_it_leads_to(tmp_path: Path, name: str) -> None:
    store, outside, out = build_store(tmp_path), tmp_path / "outside", tmp_path / FORMATS[name].out
    if "." in FORMATS[name].out:
        outside.write_text("mine")
    else:
        outside.mkdir()
        (outside / "spectrabox.json").write_text("mine")
    out.symlink_to(outside)
    (out.with_name(f".{out.name}.part")).symlink_to(outside)
    export(Store(store.path), name, out, force=True)
    assert not out.is_symlink()
    assert (outside if outside.is_file() else outside / "spectrabox.json").read_text() == "mine"


def test_links_in_the_folder_of_a_run_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    dataset, outside = tiny_dataset(tmp_path / "tiny.zarr"), tmp_path / "outside.txt"
    planted(tmp_path / "run", outside, "config.yaml")
    with pytest.raises(TrainError, match=r"config\.yaml is a link, and nothing is written through links"):
        train(dataset, tmp_path / "run", tiny_config(steps=1))
    assert outside.read_text() == "mine"
    assert os.listdir(tmp_path / "run") == ["config.yaml"]


@pytest.mark.parametrize(
    "name", ["../up.mp4", "a/../../b.mp4", "..", ".hidden.mp4", "-rf.mp4", "a\nb.mp4", "zarr.json", "c:\\x"]
)
def test_ids_of_videos_are_plain_names_of_files(name: str) -> None:
    id = video_id(name)
    assert Path(id).name == id
    assert id.isprintable()
    assert not id.startswith((".", "-"))
    assert id != "zarr.json"


@pytest.mark.parametrize("name", ["../x", "/etc", "a/b/c", "..", "a--b", "", "a\\b"])
def test_names_of_weights_do_not_lead_out_of_their_cache(name: str) -> None:
    with pytest.raises(WeightsError, match="is no name for weights"):
        folder_name(name)


def test_names_of_a_store_are_text_in_its_report(tmp_path: Path) -> None:
    store = build_store(tmp_path)
    evil = "<img src=x onerror=alert(1)>"
    root = zarr.open_group(str(store.path), mode="r+")
    table = [{**row, "name": f"{evil}{row['id']}"} for row in root.attrs["categories"]]
    root.attrs.update({"categories": table, "failures": {evil: f"<script>{evil}</script>"}, "profile": evil})
    text = write_report(open_store(store.path), tmp_path / "report").read_text(encoding="utf-8")
    assert "&lt;img src=x" in text
    assert evil not in text


def test_servers_listen_on_this_machine_unless_asked() -> None:
    for function in (serve.serve, cli.serve, application):
        assert inspect.signature(function).parameters["host"].default == "127.0.0.1"


@pytest.mark.slow
def test_a_checkpoint_that_is_a_pickle_is_refused(tmp_path: Path) -> None:
    dataset = tiny_dataset(tmp_path / "tiny.zarr")
    train(dataset, tmp_path / "run", tiny_config(steps=1))
    place = checkpoint.find(tmp_path / "run", "last")
    torch.save({"model": Trap(tmp_path / "sprung")}, place / checkpoint.WEIGHTS)
    with pytest.raises(TrainError, match="cannot be used"):
        load(tmp_path / "run", "last")
    assert not (tmp_path / "sprung").exists()
