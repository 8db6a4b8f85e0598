"""Boxes come back from their spectra."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.training.evaluation.stand_in import untrained
from tests.training.tiny_run import tiny_dataset
from training.matching import fitting_order, reordered
from training.planning import reading
from training.planning.costs import Collision
from training.planning.decoder import FOLDER, Decoder, DecoderConfig, decoder
from training.planning.reading import ImaginedBoxes
from training.planning.settings import PlanConfig
from training.planning.spectra import Minimised, Plausible, Refined, spectrum
from training.targets import FourierTarget
from training.world_model import WorldModel

BALLS = Plausible((0.125, 0.125), (0.0, 0.0))
W = FourierTarget(9).W
QUICK = DecoderConfig(steps=300, hidden=64, batch=128)


def apart(found: Tensor, boxes: Tensor) -> Tensor:
    """Distances of centres that belong together, in pixels of 64."""
    known = torch.ones_like(boxes, dtype=torch.bool)
    order = fitting_order(found, boxes, known, torch.zeros(boxes.shape[:2], dtype=torch.long))
    return 64 * (found - reordered(boxes, order))[..., :2].norm(dim=-1)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_search_finds_the_boxes_of_exact_spectra(seed: int, objects: int) -> None:
    boxes = BALLS.draw(20, objects, torch.Generator().manual_seed(seed))
    found = Minimised(W, objects, BALLS)(spectrum(boxes, W).sum(1))
    assert (apart(found, boxes) < 1).float().mean() > 0.9


def test_the_spectrum_is_that_of_the_training_target() -> None:
    boxes = BALLS.draw(4, 3, torch.Generator().manual_seed(0))
    target = FourierTarget(9)(boxes, torch.ones(4, 3, dtype=torch.bool))
    torch.testing.assert_close(spectrum(boxes, W).sum(1), target)


@pytest.mark.parametrize("objects", [2, 3])
def test_boxes_that_lie_on_one_another_are_no_error(objects: int) -> None:
    """Their Jacobian is singular: one such spectrum ended the planning of all."""
    generator = torch.Generator().manual_seed(0)
    same = BALLS.draw(500, 1, generator).expand(-1, objects, -1)
    near = same + 0.002 * torch.randn(same.shape, generator=generator)
    for boxes in (same, near):
        found = Minimised(W, objects, BALLS)(spectrum(boxes, W).sum(1))
        assert found.isfinite().all()
        assert apart(found, boxes).median() < 2


def test_unknown_sizes_are_found_too() -> None:
    kinds = Plausible((0.2, 0.3), (0.05, 0.05))
    boxes = kinds.draw(50, 1, torch.Generator().manual_seed(0))
    found = Minimised(W, 1, kinds)(spectrum(boxes, W).sum(1))
    assert (found - boxes).abs().median() < 0.01


def test_a_decoder_learns_the_way_back_once(tmp_path: Path) -> None:
    boxes = BALLS.draw(200, 1, torch.Generator().manual_seed(5))
    spectra = spectrum(boxes, W).sum(1)
    learned = decoder(W, 1, BALLS, tmp_path, QUICK)
    assert apart(learned(spectra), boxes).median() < 4
    refined = Refined(learned, Minimised(W, 1, BALLS))(spectra.view(10, 20, -1))
    assert (apart(refined.view(200, 1, 4), boxes) < 0.1).float().mean() > 0.95
    (file,) = (tmp_path / FOLDER).iterdir()
    written = file.stat().st_mtime_ns
    again = decoder(W, 1, BALLS, tmp_path, QUICK)
    assert file.stat().st_mtime_ns == written
    assert torch.equal(again(spectra), learned(spectra))
    decoder(FourierTarget(9, seed=1).W, 1, BALLS, tmp_path, QUICK.model_copy(update={"steps": 1}))
    assert len(list((tmp_path / FOLDER).iterdir())) == 2


def test_a_run_that_cannot_be_written_to_is_planned_with_all_the_same(tmp_path: Path) -> None:
    """A file where the folder should be: as when a run is read-only, but for the superuser too."""
    short = QUICK.model_copy(update={"steps": 3})
    (tmp_path / FOLDER).touch()
    with pytest.warns(UserWarning, match="cannot be written"):
        made = decoder(W, 1, BALLS, tmp_path, short)
    spectra = spectrum(BALLS.draw(3, 1, torch.Generator().manual_seed(5)), W).sum(1)
    assert torch.equal(made(spectra), decoder(W, 1, BALLS, None, short)(spectra))


def test_a_decoder_is_trained_where_nothing_else_would_be() -> None:
    """Whoever plans does so without gradients: the decoder that it needs for the first time is trained all the same."""
    short = QUICK.model_copy(update={"steps": 3})
    with torch.inference_mode():
        made = decoder(W, 1, BALLS, config=short)
    assert torch.equal(made(torch.zeros(18)), decoder(W, 1, BALLS, config=short)(torch.zeros(18)))


def test_the_same_seed_trains_the_same_decoder() -> None:
    short = QUICK.model_copy(update={"steps": 3})
    one, two = (decoder(W, 2, BALLS, None, short).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_boxes_are_read_through_the_head(nball_model: WorldModel) -> None:
    assert nball_model.target is not None
    assert nball_model.target.fourier is not None
    boxes = BALLS.draw(5, 2, torch.Generator().manual_seed(3))
    read = ImaginedBoxes(nball_model, (1, 0), way="minimised")
    answers = nball_model.target.fourier(boxes, torch.ones(5, 2, dtype=torch.bool), torch.tensor([1, 0]))
    read.head = lambda latents: answers  # type: ignore[assignment]  # a function will do as a head
    torch.testing.assert_close(read(torch.zeros(5, 16))[..., :2], boxes[..., :2], atol=1e-2, rtol=0)
    assert read.categories == (1, 0)


def test_plans_obey_a_rule_about_boxes(nball_model: WorldModel) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (2, 1, 64, 64, 3), dtype=np.uint8)
    config = PlanConfig(candidates=20, elites=4, iterations=3, horizon=3)
    free = nball_model.plan(frames, frames[:, 0], config=config)
    rule = Collision(ImaginedBoxes(nball_model, way="minimised"), control=0, distance=200.0)
    ruled = nball_model.plan(frames, frames[:, 0], config=config, rules=[(10.0, rule)])
    assert np.isfinite(ruled).all()
    assert not np.allclose(free, ruled)


def test_categories_that_the_head_does_not_know_are_refused(nball_model: WorldModel) -> None:
    with pytest.raises(ValueError, match=r"not \[5\]"):
        ImaginedBoxes(nball_model, (0, 5), way="minimised")


def test_ways_that_there_are_not_are_refused(nball_model: WorldModel) -> None:
    with pytest.raises(ValueError, match=r"no way 'magic' .* learned, refined, minimised"):
        ImaginedBoxes(nball_model, (0, 1), way="magic")  # type: ignore[arg-type]


def test_no_objects_are_refused(nball_model: WorldModel) -> None:
    with pytest.raises(ValueError, match="at least one object"):
        ImaginedBoxes(nball_model, ())


def test_decoders_are_trained_once_for_a_number_of_objects_and_kept_in_the_run(
    nball_run: Path, nball_model: WorldModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, Path | None]] = []

    def quick(frequencies: Tensor, objects: int, plausible: Plausible, folder: Path | None = None) -> Decoder:
        asked.append((objects, folder))
        return decoder(frequencies, objects, plausible, folder, QUICK.model_copy(update={"steps": 2}))

    monkeypatch.setattr(reading, "decoder", quick)
    alone = ImaginedBoxes(nball_model, (0, 1)).ways
    assert asked == [(1, nball_run)]
    assert alone is not None
    assert alone[0] is alone[1]
    assert isinstance(alone[0], Decoder)
    several = ImaginedBoxes(nball_model, (0, 1, 1)).ways
    assert several is not None
    assert isinstance(several[0], Decoder)
    assert isinstance(several[1], Refined)
    assert len(list((nball_run / FOLDER).iterdir())) == 2


def test_a_decoder_has_a_box_per_object() -> None:
    assert Decoder(9, 3, 8)(torch.zeros(2, 5, 18)).shape == (2, 5, 3, 4)


def test_balls_of_one_size_are_looked_for_in_that_size(nball_model: WorldModel) -> None:
    """Statistics say a deviation of 1 where all are the same, which was taken for sizes of the whole frame."""
    usual = Plausible.of(nball_model.data.arrays()["boxes"])
    assert usual.std == (0.0, 0.0)
    assert usual.mean == pytest.approx((0.125, 0.125))


def test_a_broken_decoder_is_said_and_trained_anew(tmp_path: Path) -> None:
    short = QUICK.model_copy(update={"steps": 3})
    whole = decoder(W, 1, BALLS, tmp_path, short).state_dict()
    (file,) = (tmp_path / FOLDER).iterdir()
    file.write_bytes(b"not safetensors")
    with pytest.warns(UserWarning, match=f"{file.name} cannot be read"):
        again = decoder(W, 1, BALLS, tmp_path, short).state_dict()
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_decoders_are_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / FOLDER).symlink_to(tmp_path / "elsewhere")
    with pytest.warns(UserWarning, match="is a link"):
        decoder(W, 1, BALLS, tmp_path / "run", QUICK.model_copy(update={"steps": 3}))
    assert not any((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("matching", ["frame", "sequence", "fourier"])
def test_heads_that_mix_kinds_cannot_be_asked_whose_box_it_is(tmp_path: Path, matching: str) -> None:
    model = untrained(tiny_dataset(tmp_path / "tiny.zarr"), matching=matching, grouping="all")
    with pytest.raises(ValueError, match="which box is whose"):
        ImaginedBoxes(model)
