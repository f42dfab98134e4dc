"""DenseNet (Huang et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

GROWTH, START, NARROWED = 32, 64, 128
"""Channels that a layer adds, channels of the stem, and channels between the two convolutions of a layer."""


class DenseLayer(nn.Module):
    """A layer that appends its output to its input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm, self.narrow = nn.BatchNorm2d(channels), nn.Conv2d(channels, NARROWED, 1, bias=False)
        self.narrow_norm = nn.BatchNorm2d(NARROWED)
        self.convolution = nn.Conv2d(NARROWED, GROWTH, 3, padding=1, bias=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = self.narrow(F.relu(self.norm(images)))
        added = self.convolution(F.relu(self.narrow_norm(hidden)))
        return torch.cat([images, added], 1)


class DenseNet(nn.Module):
    """Blocks of layers; between two blocks, a transition halves the channels and the image."""

    def __init__(self, classes: int, depths: Sequence[int]) -> None:
        """`depths`: layers of each block."""
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, START, 7, 2, 3, bias=False), nn.BatchNorm2d(START), nn.ReLU()]
        layers.append(nn.MaxPool2d(3, 2, padding=1))
        channels = START
        for block, depth in enumerate(depths):
            if block:
                halved = channels // 2
                layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, halved, 1, bias=False)]
                layers.append(nn.AvgPool2d(2))
                channels = halved
            layers += [DenseLayer(channels + GROWTH * layer) for layer in range(depth)]
            channels += GROWTH * depth
        self.layers = nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU())
        self.output = nn.Linear(channels, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.output(self.layers(images).mean((2, 3)))
