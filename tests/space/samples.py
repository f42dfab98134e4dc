"""Sampled strategies for tests that must hold for every option of the language."""

from __future__ import annotations

import random

from autosync.spec import ClusterSpec, ModelSpec, Strategy
from search_spaces.default import SPACE
from tests.space.wide import WIDE

__all__ = ["sampled"]


def sampled(model: ModelSpec, cluster: ClusterSpec, count: int, seed: int = 0) -> list[Strategy]:
    """Strategies alternately from the default space and from a space with every algorithm and compressor."""
    spaces, rng = [space.bind(model, cluster) for space in (SPACE, WIDE)], random.Random(seed)
    return [spaces[number % 2].sample(rng) for number in range(count)]
