"""The settings of an optimizer that concern all gradients together, which no shard's update can follow by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["LOSS_SCALE", "NO_RULE", "GradientRule", "gradient_rule_of", "inner_optimizer"]

LOSS_SCALE = "loss_scale"
"""Name of the state by which a replica's loss is multiplied before the backward pass; always the last one."""


@dataclass(frozen=True)
class GradientRule:
    """An optimizer's settings that concern all gradients.

    Gradients are scaled down to a common norm of `clip_norm` if it is larger. The loss is scaled by `loss_scale`, and
    gradients back. With `growth_steps` the scale is dynamic: a step whose gradients are not finite is left out and
    halves it, `growth_steps` good ones double it (Micikevicius et al. 2018; Keras' `LossScaleOptimizer`).
    """

    clip_norm: float | None = None
    loss_scale: float | None = None
    growth_steps: int | None = None


NO_RULE = GradientRule()


def inner_optimizer(optimizer: Any) -> Any:
    """The optimizer whose update is made: what a Keras `LossScaleOptimizer` wraps, otherwise `optimizer` itself."""
    return optimizer.inner_optimizer if type(optimizer).__name__ == "LossScaleOptimizer" else optimizer


def gradient_rule_of(optimizer: Any) -> GradientRule:
    """The rule that a Keras optimizer's settings state."""
    inner = inner_optimizer(optimizer)
    clip = getattr(inner, "global_clipnorm", None)
    clip_norm = None if clip is None else float(clip)
    if inner is not optimizer:
        return GradientRule(clip_norm, float(optimizer.initial_scale), int(optimizer.dynamic_growth_steps))
    factor = getattr(inner, "loss_scale_factor", None)
    return GradientRule(clip_norm, None if factor is None else float(factor))
