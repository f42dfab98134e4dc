"""Strategies drawn for tests that must hold for everything the language can say."""

from __future__ import annotations

import random

from autosync.spec import ClusterSpec, ModelSpec, Strategy
from search_spaces.default import SPACE
from tests.space.wide import WIDE

__all__ = ["sampled"]


def sampled(model: ModelSpec, cluster: ClusterSpec, count: int, seed: int = 0) -> list[Strategy]:
    """Strategies from the default space and from one of every algorithm and compressor, in turns."""
    spaces, rng = [space.bind(model, cluster) for space in (SPACE, WIDE)], random.Random(seed)
    return [spaces[number % 2].sample(rng) for number in range(count)]
