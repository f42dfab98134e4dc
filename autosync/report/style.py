"""The look of pictures: colours with counterparts for dark pages, markers, and matplotlib's settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from autosync.words.strategy import ARCHITECTURES


@dataclass(frozen=True)
class Colour:
    """A colour of the page: its variable in the style sheet, and its values on light and dark screens."""

    name: str
    light: str
    dark: str


INK = Colour("ink", "#1b1f24", "#e6e9ed")
MUTED = Colour("muted", "#5b6571", "#9aa5b1")
FAINT = Colour("faint", "#c3cad2", "#4a535d")
GRID = Colour("grid", "#e6e9ed", "#2b323a")
PAPER = Colour("paper", "#fefefe", "#14181c")

# Okabe and Ito's colours, which people with any kind of colour vision can distinguish, a shade darker where text needs
# it.
SERIES = (
    Colour("blue", "#0072b2", "#56b4e9"),
    Colour("orange", "#c65300", "#ff9147"),
    Colour("green", "#00805c", "#35c79a"),
    Colour("purple", "#a8528b", "#dd93c3"),
    Colour("gold", "#b17a00", "#f0c04a"),
    Colour("grey", "#6a737d", "#a3adb8"),
)
RUN_COLOURS = (INK, SERIES[4], SERIES[5])
"""Colours of compared runs; no architecture has one of these colours."""

COLOURS = (INK, MUTED, FAINT, GRID, PAPER, *SERIES)


@dataclass(frozen=True)
class Look:
    """The colour and the marker of one kind; either one alone distinguishes it from other kinds."""

    colour: Colour
    marker: str

    @property
    def light(self) -> str:
        return self.colour.light


MARKERS = ("o", "s", "D", "^")
ARCHITECTURE_LOOKS: Mapping[str, Look] = MappingProxyType(
    {name: Look(colour, marker) for name, colour, marker in zip(ARCHITECTURES, SERIES, MARKERS, strict=False)}
)


def look_of(architecture: str | None) -> Look:
    """The look of an architecture; a neutral look if the architecture is unknown."""
    return ARCHITECTURE_LOOKS.get(architecture or "", Look(MUTED, "o"))


@dataclass(frozen=True)
class Width:
    """A width in `inches`: a picture is drawn once for screens and paper, and once for phones."""

    name: str
    inches: float

    @property
    def is_narrow(self) -> bool:
        return self.name == "narrow"


WIDE, NARROW = Width("wide", 8.6), Width("narrow", 4.1)

RC: Mapping[str, Any] = MappingProxyType(
    {
        "font.size": 9.0,
        "axes.titlesize": 9.0,
        "axes.labelsize": 9.0,
        "axes.labelcolor": MUTED.light,
        "axes.edgecolor": FAINT.light,
        "axes.linewidth": 0.8,
        "axes.facecolor": PAPER.light,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": GRID.light,
        "grid.linewidth": 0.8,
        "xtick.color": FAINT.light,
        "ytick.color": FAINT.light,
        "xtick.labelcolor": MUTED.light,
        "ytick.labelcolor": MUTED.light,
        "xtick.labelsize": 8.5,
        "ytick.labelsize": 8.5,
        "text.color": INK.light,
        "text.parse_math": False,  # names of variables and labels may hold dollars
        "legend.frameon": False,
        "legend.fontsize": 8.5,
        "legend.handletextpad": 0.4,
        "legend.columnspacing": 1.4,
        "lines.solid_capstyle": "round",
        "figure.facecolor": PAPER.light,
        "figure.constrained_layout.use": True,
        "svg.fonttype": "none",
        "svg.hashsalt": "autosync",
    }
)
"""Matplotlib's settings for all pictures. They use only the colours above, so that a page can exchange them."""
