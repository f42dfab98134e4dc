"""Ray Data without its news: for readers that are part of something that says what it does itself."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quietly(in_order: bool = False) -> Iterator[None]:
    """Let Ray Data show nothing in the block, and ask for no CPU: newer readers want one, which may never be free.

    With `in_order` blocks come in the order of what they were made of.
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
            warnings.simplefilter("ignore")  # it would rather be given an expression of its own
            yield
    finally:
        log.setLevel(level)
        context.execution_options.preserve_order = ordered
        for name, value in before.items():
            setattr(context, name, value)
