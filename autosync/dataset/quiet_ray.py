"""Ray Data without its progress output, for readers inside a command that reports its own progress."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quietly(in_order: bool = False) -> Iterator[None]:
    """Silence Ray Data in the block, and request no CPU: newer readers request one, which may never become free.

    With `in_order`, blocks arrive in the order of their inputs.
    """
    import ray.data

    wanted = {"use_datasource_v2": False, "enable_progress_bars": False}
    context, log = ray.data.DataContext.get_current(), logging.getLogger("ray.data")
    before, level = {name: getattr(context, name) for name in wanted if hasattr(context, name)}, log.level
    ordered = context.execution_options.preserve_order
    try:
        log.setLevel(logging.CRITICAL)
        for name in before:
            setattr(context, name, wanted[name])
        context.execution_options.preserve_order = in_order or ordered
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray Data warns that it prefers its own expressions
            yield
    finally:
        log.setLevel(level)
        context.execution_options.preserve_order = ordered
        for name, value in before.items():
            setattr(context, name, value)
