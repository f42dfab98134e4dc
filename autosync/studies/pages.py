"""What the pages of studies have in common: how pictures look, a mark with its interval, files that appear at once."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

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


def write_text(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def write_picture(
    folder: Path, name: str, figure: Figure, kinds: Sequence[str] = ("png", "svg"), colors: int | None = None
) -> None:
    """Write the picture in each of the kinds; a PNG with so many colors, or all."""
    for kind in kinds:
        partial = folder / f".{name}.{kind}"
        figure.savefig(partial, format=kind, dpi=DOTS_PER_INCH, metadata={"Date": None} if kind == "svg" else None)
        if kind == "png" and colors:
            with Image.open(partial) as drawn:
                drawn.convert("RGB").quantize(colors).save(partial, format="png", optimize=True)
        os.replace(partial, folder / f"{name}.{kind}")
