"""What can a user choose about planning?

Typed settings with LeWM's values as defaults, and the paper's protocols by name. Nothing heavy is imported here.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, Field, model_validator

Units = Literal["spreads", "actions"]
Way = Literal["learned", "refined", "minimised"]  # back from spectra to boxes


class PlanConfig(BaseModel, frozen=True, extra="forbid"):
    """How action sequences are searched for."""

    candidates: int = Field(300, ge=2, description="Action sequences tried in each iteration.")
    elites: int = Field(30, ge=2, description="The cheapest of them, from which the next ones are drawn.")
    iterations: int = Field(30, ge=1, description="Rounds of drawing and choosing.")
    std: float = Field(1.0, gt=0, description="Standard deviation of the first draws, in the units below.")
    units: Units = Field("spreads", description="spreads: of the training data's actions; actions: the user's own.")
    longest: float | None = Field(None, gt=0, description="Longer actions are shortened to this norm.")
    horizon: int = Field(5, ge=1, description="Steps of the model that are looked ahead, each as long as its skip.")
    seed: int = Field(0, ge=0, description="Decides all draws.")
    memory: int | None = Field(
        None, ge=1, description="Megabytes of imagined futures held at once; none: 256 on a CPU, 1,024 on a GPU."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.elites > self.candidates:
            raise ValueError(f"{self.elites} elites cannot be chosen from {self.candidates} candidates")
        return self


class DriveConfig(BaseModel, frozen=True, extra="forbid"):
    """How plans are carried out."""

    budget: int = Field(50, ge=1, description="Actions an episode has at most.")
    keep: int = Field(5, ge=1, description="Steps of a plan, each as long as the model's skip, before the next plan.")
    context: int = Field(1, ge=1, description="Past observations that a plan starts from, once there are as many.")


# The paper's protocols: for n-ball in pixels a step and without replanning, for the others as LeWM does it.
PLANNERS: dict[str, PlanConfig] = {
    "nball": PlanConfig(
        candidates=100, elites=10, iterations=20, std=2.0, units="actions", longest=3.0, horizon=4
    ),
    "lewm": PlanConfig(),
}  # fmt: skip
