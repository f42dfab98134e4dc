"""How the gradients of touched rows get to where they are added up: as they are, or cast to 16 bits."""

from collections.abc import Sequence
from typing import Any

from autosync.engine.sync.wire import Wire
from autosync.spec import Cast, Compressor


def rows_at(target: str, sources: Sequence[str], gradients: Sequence[Any], compressor: Compressor | None) -> list[Any]:
    """The `gradients` (n, ...), which are on `sources`, as each is once all are on `target`.

    Whoever adds them up gets the same bits, also of its own: a cast rounds those that stay where they are, too.
    """
    if not isinstance(compressor, Cast):
        return list(gradients)
    wire = Wire(compressor)
    return [
        wire.settled(each, target) if source == target else wire.over(each, source, target)
        for source, each in zip(sources, gradients, strict=True)
    ]
