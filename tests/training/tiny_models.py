"""A model so small that a step takes milliseconds, with all the parts of a large one."""

from __future__ import annotations

from training.settings import EncoderConfig, ModelConfig, PredictorConfig

TINY = ModelConfig(
    latent=12,
    projector=20,
    # Weights so large that frames differ before training: BatchNorm would magnify rounding where they hardly do.
    encoder=EncoderConfig(size=16, patch=4, width=16, depth=2, heads=2, ffn=32, init=0.3),
    predictor=PredictorConfig(width=8, depth=2, heads=2, head_size=4, ffn=16),
)
