"""Helpers that pictures share: figures, rows of dots with intervals, axes in milliseconds, legends."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from autosync.report.style import INK, MUTED, PAPER, Look, Width

MILLI = 1e3
DASHED: dict[str, Any] = {"color": MUTED.light, "linewidth": 1.1, "linestyle": (0, (4, 2))}
"""The style of the line with which all rows are compared."""

ROW_INCHES = {False: 0.27, True: 0.42}
FRAME_INCHES = 0.55
FINER = (
    (1.0, 1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2.0, 2.2, 2.5, 2.8, 3.2, 3.6, 4.0, 4.5, 5.0, 5.5, 6.0, 7.0, 8.0, 9.0),
    (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0),
    (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
    (1.0, 2.0, 5.0),
    (1.0, 3.0),
    (1.0,),
)
"""Tick steps within a decade, the finest first."""


def figure_of(width: Width, inches: float) -> Figure:
    """A new figure, `inches` high."""
    return Figure(figsize=(width.inches, inches))


def rows_inches(rows: int, above: bool) -> float:
    """The height in inches of a figure with `rows` rows, without its legend; see `rows_axis`."""
    return FRAME_INCHES + ROW_INCHES[above] * rows


def rows_axis(axes: Axes, names: Sequence[str], above: bool, strong: Sequence[int] = ()) -> None:
    """Make one row per name, the first on top: names are left of the rows, or `above` each row in a narrow picture."""
    axes.set_yticks(range(len(names)), ["" if above else name for name in names])
    axes.set_ylim(len(names) - 0.4, -0.8 if above else -0.6)
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    for place, (name, label) in enumerate(zip(names, axes.get_yticklabels(), strict=True)):
        weight = "bold" if place in strong else "normal"
        label.set(color=INK.light, fontweight=weight)
        if above:
            axes.text(
                0, place - 0.27, name, transform=axes.get_yaxis_transform(), fontsize=8.0, fontweight=weight,
                va="bottom", bbox={"facecolor": PAPER.light, "linewidth": 0, "pad": 0.6}, zorder=2.5,
            )  # fmt: skip


def dot(
    axes: Axes, value: float, interval: tuple[float, float] | None, row: float, look: Look, sure: bool = True
) -> None:
    """Draw a value with its interval in a row; a value that is less `sure` is hollow."""
    colour = look.light
    if interval is not None:
        axes.plot(interval, [row, row], color=colour, linewidth=1.6, solid_capstyle="butt", zorder=2)
        for end in interval:
            axes.plot([end, end], [row - 0.13, row + 0.13], color=colour, linewidth=1.2, zorder=2)
    face = colour if sure else PAPER.light
    axes.plot([value], [row], look.marker, color=colour, markerfacecolor=face, markersize=6.5, zorder=3)


def yardstick_line(axes: Axes, at: float) -> None:
    """Draw the line with which all rows are compared."""
    axes.axvline(at, **DASHED, zorder=1)


def pad_limits(values: Sequence[float], share: float = 0.06) -> tuple[float, float]:
    """Limits of a logarithmic axis that hold all `values`, with this share of room at both ends."""
    low, high = min(values), max(values)
    room = (high / low) ** share if high > low else 1.0
    return low / max(room, 1.03), high * max(room, 1.03)


def milliseconds_a_step(times: Iterable[str]) -> str:
    """The label of an axis of step times: milliseconds, marked as paced if any of `times` is."""
    unreal = [time for time in times if time != "real"]
    return f"{unreal[0]} milliseconds a step" if unreal else "milliseconds a step"


def log_axis(axes: Axes, which: str, limits: tuple[float, float], most: int = 8) -> None:
    """Make the axis logarithmic, with at most `most` plain numbers on it."""
    axes.set(**{f"{which}scale": "log", f"{which}lim": limits})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(FixedLocator(_plain_ticks(limits, most)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _plain_ticks(limits: tuple[float, float], most: int) -> list[float]:
    """Round numbers, about evenly spaced on a logarithmic axis: the finest set with at most `most` numbers."""
    low, high = limits
    for steps in FINER:
        powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
        ticks = [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
        if 2 <= len(ticks) <= most:
            return ticks
    return [tick for tick in MaxNLocator(most - 1).tick_values(low, high) if low <= tick <= high]


def look_handle(look: Look, label: str, sure: bool = True) -> Line2D:
    """A legend entry for marks with this look."""
    face = look.light if sure else PAPER.light
    return Line2D([], [], linestyle="", marker=look.marker, color=look.light, markerfacecolor=face, label=label)


def legend_below(figure: Figure, handles: Sequence[Artist], width: Width) -> None:
    if handles:
        columns = 2 if width.is_narrow else 5
        figure.legend(handles=list(handles), loc="outside lower left", ncols=min(len(handles), columns))
