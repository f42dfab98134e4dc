"""The linear model: a weighted sum of normalized features."""

from __future__ import annotations

from typing import final

import torch

__all__ = ["LinearResidual"]


@final
class LinearResidual(torch.nn.Module):
    """What to add to the base simulator's log seconds. Starts at zero, so that an untrained one adds nothing."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(features, dtype=torch.float64))
        self.bias = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Normalized features float64 (n, f) -> residuals float64 (n,)."""
        return features @ self.weight + self.bias
