"""Shared parts of the studies' pages: Matplotlib settings, marks with intervals, and writing pictures."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from autosync.files import write_atomically

RC: Mapping[str, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e0e0e0",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "autosync",
    "figure.constrained_layout.use": True,
}
"""Matplotlib settings of all pictures."""

DOTS_PER_INCH = 150


def mark(axis: Axes, value: float, arms: tuple[float, float], row: float, color: str, marker: str = "o") -> None:
    """Draw a mark with an interval; `arms` are the interval's lengths to the left and to the right of `value`."""
    axis.errorbar(
        [value], [row], xerr=[[arms[0]], [arms[1]]], color=color, marker=marker, markersize=7, capsize=3, elinewidth=1.4
    )


def write_picture(
    folder: Path, name: str, figure: Figure, kinds: Sequence[str] = ("png", "svg"), colors: int | None = None
) -> None:
    """Write the picture once for each of `kinds`; a PNG has at most `colors` colors, or all if `colors` is None."""
    for kind in kinds:
        picture = BytesIO()
        figure.savefig(picture, format=kind, dpi=DOTS_PER_INCH, metadata={"Date": None} if kind == "svg" else None)
        content = _quantize(picture, colors) if kind == "png" and colors else picture.getvalue()
        write_atomically(folder / f"{name}.{kind}", content)


def _quantize(picture: BytesIO, colors: int) -> bytes:
    small = BytesIO()
    with Image.open(picture) as drawn:
        drawn.convert("RGB").quantize(colors).save(small, format="png", optimize=True)
    return small.getvalue()
