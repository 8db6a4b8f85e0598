"""Where objects are imagined, and where they are."""

from pathlib import Path

import pytest
import torch

from tests.training.evaluation.stand_in import untrained
from training import load
from training.dataset import Dataset, open_dataset
from training.evaluation import foresight
from training.evaluation.foresight import foreseen_places
from training.manifest import Split
from training.simulate import simulate
from training.world_model import WorldModel

GROUNDED = Path(__file__).parents[2] / "fixtures" / "runs" / "grounded"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    out = tmp_path_factory.mktemp("foresight") / "nball.zarr"
    return open_dataset(simulate("nball", out, 40, 16, split=Split(validation=0.5), size=16, balls=3).path)


@pytest.mark.parametrize(("shift", "swapped"), [(0.0, False), (0.0, True), (0.5, True)])
def test_alike_objects_have_no_order_and_distances_are_pixels(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch, shift: float, swapped: bool
) -> None:
    """A reader that knows the truth of the last frame of each window, and names white balls in another order."""
    true: list[torch.Tensor] = []
    model = untrained(dataset, matching="none")
    foresight_step = model.model.context + 3 - 1

    def counted(self: WorldModel, start: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return torch.arange(actions.shape[2] + 1.0).view(1, 1, -1, 1).expand(len(start), 1, -1, 1)

    monkeypatch.setattr(WorldModel, "rollout", counted)
    batches = foresight.Windows.batches

    def noted(self: object, **how: int) -> object:
        for batch in batches(self, **how):  # type: ignore[arg-type]
            true.append(batch.boxes[:, -1].clone())
            yield batch

    class Knowing:
        size = (16, 16)

        def __init__(self, *_: object) -> None:
            pass

        def __call__(self, latents: torch.Tensor) -> torch.Tensor:
            assert (latents == foresight_step).all()
            boxes = true[-1][:, [0, 2, 3, 1] if swapped else [0, 1, 2, 3]].clone()
            boxes[..., 0] += shift / 16
            return boxes

    monkeypatch.setattr(foresight, "ImaginedBoxes", Knowing)
    monkeypatch.setattr(foresight.Windows, "batches", noted)
    found = foreseen_places(model, dataset, "validation", horizon=3)
    assert set(found) == {"control ball", "ball"}
    assert found["control ball"].off == pytest.approx(shift, abs=1e-4)
    assert found["ball"].off == pytest.approx(shift, abs=0.1 if shift else 1e-4)  # balls side by side change places
    assert found["control ball"].blind == pytest.approx(0.3826 * 56 / 4, rel=0.15)  # from the middle of a square
    assert found["ball"].blind <= found["control ball"].blind  # of three balls one is nearer


def test_a_grounded_model_foresees_far_better_than_a_guess(tmp_path: Path) -> None:
    fresh = simulate("nball", tmp_path / "d.zarr", 40, 32, seed=77, size=32, split=Split(validation=0.5), balls=1)
    found = foreseen_places(load(GROUNDED), open_dataset(fresh.path), "validation", horizon=4, way="minimised")
    for name, one in found.items():
        assert one.off < 0.35 * one.blind, name
