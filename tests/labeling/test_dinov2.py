from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, Dinov2Model, ViTMAEConfig

from labeling.checkpoints import WeightsError
from labeling.embeddings import dinov2_network
from labeling.embeddings.dinov2 import Dinov2Config, Dinov2Embedder, patch_weights
from labeling.embeddings.dinov2_network import PatchNetwork
from labeling.masks import Mask
from tests.labeling.tiny_dino import DEPTH, write_dino, write_dinov2, write_dinov2_with_registers

ROWS, COLUMNS, PATCH = 4, 6, 10
RNG = np.random.default_rng(0)


class KnownNetwork:
    """Stands for the network: every patch of a frame has a feature that the test knows; counts its passes."""

    depth, patch = 5, PATCH

    def __init__(self) -> None:
        self.passes: list[int] = []

    def features(self, image: np.ndarray) -> np.ndarray:
        height, width = image.shape[:2]
        rng = np.random.default_rng(int(image[0, 0, 0]))
        return rng.standard_normal((height // PATCH, width // PATCH, self.depth)).astype(np.float32)

    def __call__(self, images: list[np.ndarray], longest: int) -> np.ndarray:
        self.passes.append(len(images))
        return np.stack([self.features(image) for image in images])


def frame(number: int, rows: int = ROWS, columns: int = COLUMNS) -> np.ndarray:
    return np.full((rows * PATCH, columns * PATCH, 3), number, np.uint8)


def solid(x: int, y: int, width: int, height: int, value: int = 255) -> Mask:
    return Mask(x, y, np.full((height, width), value, np.uint8))


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


@pytest.fixture
def known(monkeypatch) -> Dinov2Embedder:
    monkeypatch.setattr(dinov2_network, "PatchNetwork", lambda *_: KnownNetwork())
    return Dinov2Embedder(Dinov2Config(batch=3), Path("nowhere"), "cpu")


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("checkpoints")
    return {
        "dinov2": write_dinov2(folder / "dinov2"),
        "registers": write_dinov2_with_registers(folder / "registers"),
        "dino": write_dino(folder / "dino"),
    }


@pytest.mark.parametrize(("row", "column"), [(0, 0), (1, 4), (ROWS - 1, COLUMNS - 1)])
@pytest.mark.parametrize("value", [255, 3])
def test_mask_of_one_patch_has_the_vector_of_that_patch(known, row, column, value):
    mask = solid(column * PATCH, row * PATCH, PATCH, PATCH, value)
    expected = unit(known._network.features(frame(1))[row, column])
    np.testing.assert_allclose(known.embed(frame(1), [mask])[0], expected, atol=1e-6)


def test_patches_count_by_the_area_that_the_mask_covers_of_them(known):
    features = known._network.features(frame(1))
    mask = solid(5, 12, 10, 4)  # half on the first, half on the second patch of the second row
    np.testing.assert_allclose(known.embed(frame(1), [mask])[0], unit(features[1, 0] + features[1, 1]), atol=1e-6)
    coverage = np.full((10, 20), 60, np.uint8)
    coverage[:, 10:] = 240
    soft = known.embed(frame(1), [Mask(20, 20, coverage)])[0]
    np.testing.assert_allclose(soft, unit(60 * features[2, 2] + 240 * features[2, 3]), atol=1e-6)


def test_mask_smaller_than_a_patch_has_the_vector_of_that_patch(known):
    features = known._network.features(frame(1))
    np.testing.assert_allclose(known.embed(frame(1), [solid(33, 27, 1, 1)])[0], unit(features[2, 3]), atol=1e-6)


@pytest.mark.parametrize(
    ("size", "grid"), [((40, 60), (4, 6)), ((41, 61), (4, 6)), ((7, 9), (20, 30)), ((50, 5), (3, 9))]
)
def test_shares_are_exact_on_any_grid(size, grid):
    """Against a sum over a fine raster, also where patches are smaller than pixels."""
    coverage = RNG.integers(0, 256, size).astype(np.uint8)
    fine = np.repeat(np.repeat(coverage.astype(float), grid[0], 0), grid[1], 1)
    expected = fine.reshape(grid[0], size[0], grid[1], size[1]).sum((1, 3))
    np.testing.assert_allclose(patch_weights(Mask(0, 0, coverage), size, grid), expected / expected.sum(), atol=1e-12)


def test_part_of_a_mask_outside_the_frame_does_not_count(known):
    features = known._network.features(frame(1))
    np.testing.assert_allclose(known.embed(frame(1), [solid(-50, -50, 60, 60)])[0], unit(features[0, 0]), atol=1e-6)


@pytest.mark.parametrize(
    ("mask", "patch"),
    [
        (solid(500, 500, 5, 5), (ROWS - 1, COLUMNS - 1)),
        (solid(-50, 12, 5, 5), (1, 0)),
        (solid(22, 12, 5, 5, value=0), (1, 2)),
        (Mask(22, 12, np.zeros((0, 0), np.uint8)), (1, 2)),
    ],
)
def test_mask_that_covers_nothing_has_the_vector_of_the_nearest_patch(known, mask, patch):
    expected = unit(known._network.features(frame(1))[patch])
    np.testing.assert_allclose(known.embed(frame(1), [mask])[0], expected, atol=1e-6)


def test_order_of_masks_does_not_matter(known):
    masks = [solid(3 * place, 2 * place, 7, 9) for place in range(6)]
    order = [4, 0, 5, 2, 1, 3]
    rows = known.embed(frame(1), masks)
    np.testing.assert_array_equal(known.embed(frame(1), [masks[place] for place in order]), rows[order])


def test_a_frame_goes_through_the_network_once_however_many_masks_are_asked_for(known):
    image = frame(1)
    for place in range(5):
        known.embed(image, [solid(place, 0, 5, 5)])
    known.embed_frames([image, frame(2)], [[solid(0, 0, 5, 5)], [solid(0, 0, 5, 5)] * 7])
    assert known._network.passes == [1, 1]


def test_another_frame_with_the_same_pixels_is_another_frame(known):
    """Frames are told apart by identity: comparing pixels would cost more than it saves."""
    known.embed(frame(1), [solid(0, 0, 5, 5)])
    known.embed(frame(1), [solid(0, 0, 5, 5)])
    assert known._network.passes == [1, 1]


def test_frames_go_through_the_network_in_batches_and_empty_ones_not_at_all(known):
    images = [frame(number) for number in range(9)]
    masks = [[] if number in (2, 5) else [solid(number, 3, 12, 12)] for number in range(9)]
    rows = known.embed_frames(images, masks)
    assert known._network.passes == [3, 3, 1]
    assert [len(row) for row in rows] == [1, 1, 0, 1, 1, 0, 1, 1, 1]
    for image, some, row in zip(images, masks, rows, strict=True):
        np.testing.assert_allclose(row, known.embed(image.copy(), some), atol=1e-6)
    assert rows[2].shape == (0, KnownNetwork.depth)


def test_frames_of_several_sizes_can_be_embedded_together(known):
    images = [frame(1), frame(2, rows=6, columns=3), frame(3)]
    rows = known.embed_frames(images, [[solid(10, 10, 10, 10)]] * 3)
    for image, row in zip(images, rows, strict=True):
        np.testing.assert_allclose(row[0], unit(known._network.features(image)[1, 1]), atol=1e-6)


@pytest.mark.parametrize("name", ["dinov2", "registers", "dino"])
@pytest.mark.parametrize("kind", ["tokens", "keys"])
def test_every_kind_of_network_gives_one_feature_a_patch(checkpoints, name, kind):
    network = PatchNetwork(checkpoints[name], "cpu", kind)
    image = RNG.integers(0, 255, (120, 180, 3), dtype=np.uint8)
    features = network([image, image], 12)
    assert features.shape == (2, 8, 12, DEPTH)
    assert features.dtype == np.float32
    assert np.isfinite(features).all()
    np.testing.assert_array_equal(features, network([image, image], 12))


@pytest.mark.parametrize("name", ["dinov2", "registers", "dino"])
def test_features_are_those_of_transformers_without_class_and_register_tokens(checkpoints, name):
    network, side = PatchNetwork(checkpoints[name], "cpu"), 14 if name == "dino" else 8
    image = RNG.integers(0, 255, (112, 112, 3), dtype=np.uint8)
    model = AutoModel.from_pretrained(checkpoints[name]).eval()
    scaled = (image / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    pixels = torch.from_numpy(scaled.astype(np.float32)).permute(2, 0, 1)[None]
    more = {"interpolate_pos_encoding": True} if name == "dino" else {}
    with torch.no_grad():
        tokens = model(pixels, **more).last_hidden_state[0].numpy()
    assert len(tokens) == side * side + (5 if name == "registers" else 1)
    np.testing.assert_allclose(network([image], side)[0].reshape(-1, DEPTH), tokens[-side * side :], atol=1e-4)


def test_keys_are_those_of_the_last_layer(checkpoints):
    image = RNG.integers(0, 255, (112, 112, 3), dtype=np.uint8)
    keys = PatchNetwork(checkpoints["dinov2"], "cpu", "keys")([image], 8)[0]
    model = Dinov2Model.from_pretrained(checkpoints["dinov2"]).eval()
    layer, seen = model.encoder.layer[-1], []
    layer.norm1.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    scaled = (image / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    with torch.no_grad():
        model(torch.from_numpy(scaled.astype(np.float32)).permute(2, 0, 1)[None])
        expected = layer.attention.k_proj(seen[0])[0, 1:].numpy()
    np.testing.assert_allclose(keys.reshape(-1, DEPTH), expected, atol=1e-4)


@pytest.mark.parametrize("size", [(30, 200), (64, 96), (480, 854), (5, 5)])
def test_frames_of_any_shape_fit_the_patches(checkpoints, size):
    network = PatchNetwork(checkpoints["dinov2"], "cpu")
    rows, columns = network([np.zeros((*size, 3), np.uint8)], 10).shape[1:3]
    assert max(rows, columns) == 10
    assert abs(rows / columns - size[0] / size[1]) < 0.1


def test_batches_of_frames_have_the_vectors_of_single_frames(checkpoints):
    embedder = Dinov2Embedder(Dinov2Config(image_size=140, batch=3), checkpoints["registers"], "cpu")
    images = [RNG.integers(0, 255, (60, 90, 3), dtype=np.uint8) for _ in range(5)]
    masks = [[solid(3 * place, 5, 20, 20), solid(40, 30, 7, 9)] for place in range(5)]
    together = embedder.embed_frames(images, masks)
    for image, some, rows in zip(images, masks, together, strict=True):
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
        np.testing.assert_allclose(embedder.embed(image, some), rows, atol=1e-4)
    assert together[0].dtype == np.float32
    assert embedder.embed(images[0], []).shape == (0, DEPTH)


def test_unreadable_checkpoint_is_named_with_its_fault_and_a_remedy(tmp_path, checkpoints):
    def message(path: Path) -> str:
        with pytest.raises(WeightsError) as caught:
            PatchNetwork(path, "cpu")
        assert str(path) in str(caught.value)
        return str(caught.value)

    assert "not a directory" in message(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "spectrabox weights fetch" in message(tmp_path / "empty")
    other = tmp_path / "other"
    ViTMAEConfig().save_pretrained(other)
    assert "vit_mae" in message(other)
    broken = tmp_path / "broken"
    write_dinov2(broken)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert "cannot be loaded" in message(broken)
    without = tmp_path / "without"
    write_dinov2(without)
    (without / "model.safetensors").write_bytes((checkpoints["dino"] / "model.safetensors").read_bytes())
    assert "encoder.layer" in message(without)
    assert "fetch it again" in message(without)
    pickled = tmp_path / "pickled"
    write_dinov2(pickled)
    (pickled / "model.safetensors").unlink()
    torch.save({"weights": print}, pickled / "pytorch_model.bin")  # more than weights: never unpickled
    assert "cannot be loaded" in message(pickled)
    garbled = tmp_path / "garbled"
    write_dinov2(garbled)
    (garbled / "config.json").write_text("{")
    assert "cannot be loaded" in message(garbled)


def test_settings_do_not_import_torch():
    """The default profile reads all settings and must start without torch."""
    program = (
        "import sys, labeling.embeddings.dinov2, labeling.proposals.maskcut;"
        "print([m for m in ('torch', 'transformers', 'scipy') if m in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_half_precision_keeps_the_direction_of_a_feature(checkpoints, monkeypatch):
    """As on a GPU; the answer is float32 all the same."""
    image = RNG.integers(0, 255, (112, 112, 3), dtype=np.uint8)
    network = PatchNetwork(checkpoints["registers"], "cpu")
    full = network([image], 8)[0].reshape(-1, DEPTH)
    monkeypatch.setattr(dinov2_network, "working_dtype", lambda _: torch.bfloat16)
    half = network([image], 8)[0].reshape(-1, DEPTH)
    assert half.dtype == np.float32
    assert not np.array_equal(half, full)
    cosine = (half * full).sum(1) / np.linalg.norm(half, axis=1) / np.linalg.norm(full, axis=1)
    assert cosine.min() > 0.99
