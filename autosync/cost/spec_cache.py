"""A cache of results for recent clusters, because thousands of strategies share one cluster.

The cached results grow with the strategies seen. After millions of strategies, `forget` frees them.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")

_FORGET: list[Callable[[], None]] = []


def remember(most: int) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Decorator: cache a function's results for the last `most` arguments, until `forget` is called."""

    def cache(function: Callable[..., T]) -> Callable[..., T]:
        cached = lru_cache(maxsize=most)(function)
        _FORGET.append(cached.cache_clear)
        return cached

    return cache


def forget() -> None:
    """Clear all caches of clusters and of the strategies seen on them; results are computed again on demand."""
    for clear in _FORGET:
        clear()
