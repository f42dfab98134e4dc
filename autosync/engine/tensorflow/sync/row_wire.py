"""Sends the gradients of touched rows to the device that adds them, in full precision or cast to 16 bits."""

from collections.abc import Sequence
from typing import Any

from autosync.engine.tensorflow.sync.wire import PLAIN, Wire
from autosync.spec import Cast, Compressor


def row_wire(compressor: Compressor | None) -> Wire:
    """The wire for gradients of rows. A replica that gathers rows reads its own rows over this wire too."""
    return Wire(compressor) if isinstance(compressor, Cast) else PLAIN


def rows_at(target: str, sources: Sequence[str], gradients: Sequence[Any], compressor: Compressor | None) -> list[Any]:
    """Send the `gradients` (n, ...) from `sources` to `target`.

    Every device that adds these gradients gets the same bits, because a cast also rounds gradients that are already on
    the target.
    """
    wire = row_wire(compressor)
    return [
        wire.as_received(gradient, target) if source == target else wire.over(gradient, source, target)
        for source, gradient in zip(sources, gradients, strict=True)
    ]
