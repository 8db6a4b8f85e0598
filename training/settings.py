"""What can a user choose about the model, the box targets and the loss?

Typed settings with the paper's values as defaults, and the presets `nball`, `nball-cpu` and `lewm`. Nothing heavy is
imported here: the command line shows these without loading torch.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, model_validator

PresetName = Literal["nball", "nball-cpu", "lewm"]
PixelRange = Literal["symmetric", "unit", "imagenet"]
BoxState = Literal[
    "bb",
    "obb",
    "obb2",
    "bb+com",
    "obb+com",
    "obb2+com",
    "bb+depth50",
    "bb+depth25-75",
    "bb+depth05-95",
    "compact7",
    "compact13",
    "exact",
]
Matching = Literal["fourier", "none", "frame", "sequence"]
Grouping = Literal["category", "all"]
Regularizer = Literal["sigreg", "visreg", "none"]

# These have parts that may not apply to an object, which a sum of Fourier features cannot leave out.
MASKED_STATES: tuple[BoxState, ...] = ("compact7", "compact13", "exact")


class EncoderConfig(BaseModel, frozen=True, extra="forbid"):
    """The vision transformer that turns a frame into a vector."""

    size: int = Field(64, ge=8, description="Height and width of the frames, in pixels.")
    patch: int = Field(8, ge=1, description="Height and width of a patch; must divide the size.")
    width: int = Field(64, ge=1, description="Numbers per token.")
    depth: int = Field(4, ge=1, description="Transformer blocks.")
    heads: int = Field(4, ge=1, description="Attention heads; must divide the width.")
    ffn: int = Field(256, ge=1, description="Width of the layer inside each block's feed-forward network.")
    pixels: PixelRange = Field("symmetric", description="Pixel values: symmetric [-1, 1], unit [0, 1] or imagenet.")
    init: float = Field(0.02, gt=0, description="Standard deviation of the weights before training.")
    waves: float = Field(
        0.5, ge=0, description="Learned positions begin as half a wave to so many over the picture; 0: as small noise."
    )

    @model_validator(mode="after")
    def _fits(self) -> EncoderConfig:
        if self.size % self.patch:
            raise ValueError(f"patches of {self.patch} pixels do not fill frames of {self.size}")
        if 0 < self.waves < 0.5:
            raise ValueError(f"positions begin as half a wave at least, or with waves=0 as noise; not {self.waves:g}")
        if self.width % self.heads:
            raise ValueError(f"{self.heads} heads cannot share a width of {self.width}")
        return self


class PredictorConfig(BaseModel, frozen=True, extra="forbid"):
    """The causal transformer that predicts the next latent from past latents and actions."""

    context: int = Field(3, ge=1, description="How many past frames it sees at most.")
    width: int = Field(64, ge=1, description="Numbers per token.")
    depth: int = Field(4, ge=1, description="Transformer blocks.")
    heads: int = Field(4, ge=1, description="Attention heads.")
    head_size: int = Field(16, ge=1, description="Numbers per head.")
    ffn: int = Field(256, ge=1, description="Width of the layer inside each block's feed-forward network.")
    dropout: float = Field(0.0, ge=0, lt=1, description="Share of activations dropped while training.")
    inner_norm: bool = Field(False, description="A second normalisation inside attention and network, as in LeWM.")


class ModelConfig(BaseModel, frozen=True, extra="forbid"):
    """The world model: encoder, predictor, and a projector behind each."""

    latent: int = Field(128, ge=1, description="Numbers per latent state.")
    projector: int = Field(512, ge=1, description="Width of the layer inside both projectors.")
    encoder: EncoderConfig = Field(EncoderConfig(), description="From a frame to a vector.")
    predictor: PredictorConfig = Field(PredictorConfig(), description="From past latents and actions to the next one.")


class TargetConfig(BaseModel, frozen=True, extra="forbid"):
    """What the auxiliary head has to say about the boxes."""

    state: BoxState = Field("bb", description="What describes an object: bb, obb, obb2 (angle doubled), with +com, ...")
    matching: Matching = Field(
        "fourier", description="fourier: order-free sums; none, frame, sequence: a slot per object, so assigned."
    )
    grouping: Grouping = Field("category", description="Objects that are alike: those of a category, or all.")
    frequencies: int = Field(9, ge=1, description="Fourier frequencies; each gives a cosine and a sine per group.")
    sigma: float = Field(4.0, gt=0, description="Spread of the frequencies, in radians per image width.")
    sigma_angle: float = Field(1.0, gt=0, description="The same for sines and cosines of angles.")
    sigma_depth: float = Field(1.0, gt=0, description="The same for depths, in radians per standard deviation.")
    seed: int = Field(0, ge=0, description="Draws the frequencies, and the noise.")
    noise: float = Field(0.0, ge=0, description="Gaussian noise on box edges, in image widths; for bb only.")

    @model_validator(mode="after")
    def _fits(self) -> TargetConfig:
        if self.matching == "fourier" and self.state in MASKED_STATES:
            raise ValueError(f"{self.state} has parts that may not apply: choose matching none, frame or sequence")
        if self.state == "exact" and self.matching != "none":
            raise ValueError("the exact state has no objects to match: choose matching none")
        if self.noise and self.state != "bb":
            raise ValueError(
                f"noise moves the edges of boxes and would leave parts of {self.state} clean: take bb, or no noise"
            )
        return self


class ObjectiveConfig(BaseModel, frozen=True, extra="forbid"):
    """The terms of the loss and their weights."""

    regularizer: Regularizer = Field(
        "sigreg", description="What keeps latents from collapsing: sigreg, visreg or none."
    )
    regularizer_weight: float = Field(0.09, ge=0, description="Weight of the regularizer.")
    directions: int = Field(1024, ge=1, description="Random directions per step that the regularizer looks along.")
    head_hidden: int = Field(64, ge=1, description="Width of the layers inside the auxiliary head.")
    head_depth: int = Field(2, ge=1, description="Layers of the auxiliary head; with 1 it is linear.")
    encoded_weight: float = Field(
        0.1, ge=0, description="Weight of the boxes read from encoded latents; trains the head."
    )
    predicted_weight: float = Field(
        0.1, ge=0, description="Weight of the boxes read from predicted latents, with the head held fixed."
    )

    @model_validator(mode="after")
    def _fits(self) -> ObjectiveConfig:
        if self.predicted_weight > 0 and self.encoded_weight == 0:
            raise ValueError(
                "predicted_weight needs encoded_weight above 0: the head learns from encoded latents only, "
                "and would stay untrained"
            )
        return self

    @property
    def auxiliary(self) -> bool:
        """Whether there is an auxiliary head at all."""
        return self.encoded_weight > 0


_LEWM = ModelConfig(
    latent=192,
    projector=2048,
    encoder=EncoderConfig(size=224, patch=14, width=192, depth=12, heads=3, ffn=768, pixels="imagenet", waves=0),
    predictor=PredictorConfig(width=192, depth=6, heads=16, head_size=64, ffn=2048, dropout=0.1, inner_norm=True),
)

MODELS: dict[PresetName, ModelConfig] = {"nball": ModelConfig(), "nball-cpu": ModelConfig(), "lewm": _LEWM}
OBJECTIVES: dict[PresetName, ObjectiveConfig] = {
    "nball": ObjectiveConfig(),
    "nball-cpu": ObjectiveConfig(directions=256),  # the statistic hardly changes, the step gets faster
    "lewm": ObjectiveConfig(),
}
