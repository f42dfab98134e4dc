"""Shared by the pages of studies: the look of pictures, and a mark with its interval."""

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
"""Matplotlib's settings for all of the pictures."""

DOTS_PER_INCH = 150


def mark(axis: Axes, value: float, arms: tuple[float, float], row: float, color: str, marker: str = "o") -> None:
    """Draw a mark with its interval, which reaches so far to the left and to the right."""
    axis.errorbar(
        [value], [row], xerr=[[arms[0]], [arms[1]]], color=color, marker=marker, markersize=7, capsize=3, elinewidth=1.4
    )


def write_picture(
    folder: Path, name: str, figure: Figure, kinds: Sequence[str] = ("png", "svg"), colors: int | None = None
) -> None:
    """Write the picture in each of `kinds`; a PNG with at most `colors` colors, or all."""
    for kind in kinds:
        picture = BytesIO()
        figure.savefig(picture, format=kind, dpi=DOTS_PER_INCH, metadata={"Date": None} if kind == "svg" else None)
        content = _quantized(picture, colors) if kind == "png" and colors else picture.getvalue()
        write_atomically(folder / f"{name}.{kind}", content)


def _quantized(picture: BytesIO, colors: int) -> bytes:
    small = BytesIO()
    with Image.open(picture) as drawn:
        drawn.convert("RGB").quantize(colors).save(small, format="png", optimize=True)
    return small.getvalue()
