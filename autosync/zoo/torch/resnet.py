"""Residual networks (He et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

EXPANSION = 4
"""A bottleneck's channels by those of its 3 x 3 convolution."""


class ResNet(nn.Module):
    """Four stages of bottlenecks; convolutions have biases, as in keras.applications."""

    def __init__(self, classes: int, depths: Sequence[int]) -> None:
        """`depths`: bottlenecks of each stage."""
        super().__init__()
        self.stem = convolution_with_norm(3, 64, 7, 2, bias=True)
        stages: list[nn.Module] = []
        channels = 64
        for stage, depth in enumerate(depths):
            filters = 64 << stage
            for block in range(depth):
                stages.append(BottleneckBlock(channels, filters, 2 if stage and not block else 1))
                channels = filters * EXPANSION
        self.blocks = nn.Sequential(*stages)
        self.output = nn.Linear(channels, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = F.max_pool2d(F.relu(self.stem(images)), 3, 2, padding=1)
        return self.output(self.blocks(hidden).mean((2, 3)))


class BottleneckBlock(nn.Module):
    """Convolutions of 1, 3 and 1 pixels; a projection takes the place of the shortcut where channels change."""

    def __init__(self, channels: int, filters: int, stride: int) -> None:
        super().__init__()
        outputs = filters * EXPANSION
        self.first = convolution_with_norm(channels, filters, 1, stride, bias=True)
        self.second = convolution_with_norm(filters, filters, 3, 1, bias=True)
        self.third = convolution_with_norm(filters, outputs, 1, 1, bias=True)
        self.shortcut = (
            nn.Identity() if channels == outputs else convolution_with_norm(channels, outputs, 1, stride, bias=True)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = F.relu(self.second(F.relu(self.first(images))))
        return F.relu(self.shortcut(images) + self.third(hidden))


class Pair(nn.Module):
    """A residual block of two convolutions, which halves the image."""

    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.shortcut = convolution_with_norm(channels, filters, 1, 2)
        self.first = convolution_with_norm(channels, filters, 3, 2)
        self.second = convolution_with_norm(filters, filters, 3, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return F.relu(self.shortcut(images) + self.second(F.relu(self.first(images))))


def resnet_of_pairs(classes: int, widths: Sequence[int]) -> nn.Sequential:
    """A stem of the first of `widths` and a `Pair` for each further one."""
    pairs = [Pair(channels, filters) for channels, filters in pairwise(widths)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], classes)]
    return nn.Sequential(convolution_with_norm(3, widths[0], 3, 1), nn.ReLU(), *pairs, *head)


def convolution_with_norm(channels: int, filters: int, window: int, stride: int, bias: bool = False) -> nn.Sequential:
    """A convolution and its batch normalization."""
    convolution = nn.Conv2d(channels, filters, window, stride, window // 2, bias=bias)
    return nn.Sequential(convolution, nn.BatchNorm2d(filters))
