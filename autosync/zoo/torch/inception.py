"""Inception v3 (Szegedy et al. 2016) without the auxiliary classifier, as in keras.applications."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

Window = int | tuple[int, int]

ROW, COLUMN = (1, 7), (7, 1)
"""Windows whose sequence covers 7 x 7 pixels."""


def convolution(channels: int, filters: int, window: Window = 1, stride: int = 1, is_padded: bool = True) -> nn.Module:
    """A convolution, its batch normalization without a trained scale, and a rectifier."""
    sides = (window, window) if isinstance(window, int) else window
    padding = (sides[0] // 2, sides[1] // 2) if is_padded else 0
    norm = nn.BatchNorm2d(filters, eps=1e-3)
    norm.weight.requires_grad_(False)
    return nn.Sequential(nn.Conv2d(channels, filters, sides, stride, padding, bias=False), norm, nn.ReLU())


def chain(channels: int, *steps: tuple[int, Window], stride: int = 1) -> nn.Sequential:
    """Convolutions of (filters, window) in sequence; with a `stride` of 2, the last one halves the image."""
    widths = [channels, *(filters for filters, _ in steps)]
    last = len(steps) - 1
    return nn.Sequential(
        *(
            convolution(inputs, filters, window, stride if place == last else 1, stride == 1 or place != last)
            for place, ((inputs, filters), (_, window)) in enumerate(zip(pairwise(widths), steps, strict=True))
        )
    )


def pooling(channels: int, filters: int) -> nn.Sequential:
    """A mean over 3 x 3 pixels before a convolution."""
    return nn.Sequential(nn.AvgPool2d(3, 1, padding=1, count_include_pad=False), convolution(channels, filters))


class Joined(nn.Module):
    """Branches whose outputs are joined along the channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(images) for branch in self.branches], 1)


def cross(channels: int) -> Joined:
    """A row and a column of 3 pixels in parallel."""
    return Joined(convolution(channels, 384, (1, 3)), convolution(channels, 384, (3, 1)))


def _of_35_pixels(channels: int, width: int) -> Joined:
    return Joined(
        convolution(channels, 64),
        chain(channels, (48, 1), (64, 5)),
        chain(channels, (64, 1), (96, 3), (96, 3)),
        pooling(channels, width),
    )


def _of_17_pixels(width: int) -> Joined:
    long: Sequence[tuple[int, Window]] = ((width, COLUMN), (width, ROW), (width, COLUMN), (192, ROW))
    return Joined(
        convolution(768, 192),
        chain(768, (width, 1), (width, ROW), (192, COLUMN)),
        chain(768, (width, 1), *long),
        pooling(768, 192),
    )


def _of_8_pixels(channels: int) -> Joined:
    return Joined(
        convolution(channels, 320),
        nn.Sequential(convolution(channels, 384), cross(384)),
        nn.Sequential(chain(channels, (448, 1), (384, 3)), cross(384)),
        pooling(channels, 192),
    )


class InceptionV3(nn.Module):
    """A stem, then blocks at 35, 17 and 8 pixels per side."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            convolution(3, 32, 3, 2, is_padded=False),
            convolution(32, 32, 3, is_padded=False),
            convolution(32, 64, 3),
            nn.MaxPool2d(3, 2),
            convolution(64, 80, is_padded=False),
            convolution(80, 192, 3, is_padded=False),
            nn.MaxPool2d(3, 2),
        )
        self.blocks = nn.Sequential(
            _of_35_pixels(192, 32),
            _of_35_pixels(256, 64),
            _of_35_pixels(288, 64),
            Joined(chain(288, (384, 3), stride=2), chain(288, (64, 1), (96, 3), (96, 3), stride=2), nn.MaxPool2d(3, 2)),
            *map(_of_17_pixels, (128, 160, 160, 192)),
            Joined(
                chain(768, (192, 1), (320, 3), stride=2),
                chain(768, (192, 1), (192, ROW), (192, COLUMN), (192, 3), stride=2),
                nn.MaxPool2d(3, 2),
            ),
            _of_8_pixels(1280),
            _of_8_pixels(2048),
        )
        self.output = nn.Linear(2048, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.output(self.blocks(self.stem(images)).mean((2, 3)))
