"""Single pictures of a run's report as matplotlib figures."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from autosync.errors import AutosyncError
from autosync.report.blocks import Picture
from autosync.report.findings import Findings
from autosync.report.sections import sections_of
from autosync.report.style import RC, WIDE
from autosync.runs import Run

__all__ = ["Figure", "figure_of_run"]


def figure_of_run(run: Run, name: str) -> Figure:
    """The picture called `name` of the report of `run`. A notebook shows the figure, with or without pyplot.

    Raises `AutosyncError` if the run has no such picture.
    """
    pictures = {picture.name: picture for picture in _pictures(run)}
    if name not in pictures:
        raise AutosyncError(
            f"This run has no picture {name!r}, because it lacks the data; it has {', '.join(pictures) or 'none'}."
        )
    with mpl.rc_context(dict[Any, Any](RC)):
        figure = pictures[name].draw(WIDE).figure
    setattr(figure, "_repr_png_", lambda: _png(figure))  # noqa: B010  matplotlib's class lacks the method
    return figure


def _pictures(run: Run) -> Iterator[Picture]:
    for section in sections_of(Findings(run)):
        for block in section.blocks:
            if isinstance(block, Picture):
                yield block


def _png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=100)
    return stream.getvalue()
