"""What is worked out for the clusters met last, and kept, since thousands of strategies share one.

It grows with the strategies met. Where they are millions, `forget` frees it.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")

_FORGET: list[Callable[[], None]] = []


def remembered(most: int) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Keep what a function returned for the last `most` arguments, until `forget` is called."""

    def keeping(function: Callable[..., T]) -> Callable[..., T]:
        kept = lru_cache(maxsize=most)(function)
        _FORGET.append(kept.cache_clear)
        return kept

    return keeping


def forget() -> None:
    """Free all that is kept of clusters, and of strategies met on them; it is worked out again when it is needed."""
    for each in _FORGET:
        each()
