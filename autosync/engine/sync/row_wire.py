"""How the gradients of touched rows get to where they are added up: as they are, or cast to 16 bits."""

from collections.abc import Sequence
from typing import Any

from autosync.engine.sync.wire import PLAIN, Wire
from autosync.spec import Cast, Compressor


def row_wire(compressor: Compressor | None) -> Wire:
    """The wire that gradients of rows go over. Who gathers them reads its own over it, too."""
    return Wire(compressor) if isinstance(compressor, Cast) else PLAIN


def rows_at(target: str, sources: Sequence[str], gradients: Sequence[Any], compressor: Compressor | None) -> list[Any]:
    """The `gradients` (n, ...), which are on `sources`, as each is once all are on `target`.

    Whoever adds them up gets the same bits, also of its own: a cast rounds those that stay where they are, too.
    """
    wire = row_wire(compressor)
    return [
        wire.settled(each, target) if source == target else wire.over(each, source, target)
        for source, each in zip(sources, gradients, strict=True)
    ]
