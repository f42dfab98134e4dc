"""What crosses each link in a step: the winner's bytes beside those of the best baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.patches import Patch

from autosync.cost import traffic
from autosync.report.blocks import Drawing
from autosync.report.pictures.axes import figure_of, legend_below, rows_axis, rows_inches
from autosync.report.style import FAINT, INK, MUTED, Width
from autosync.spec import ClusterSpec, Link, ModelSpec, Strategy

__all__ = ["Crossing", "crossings_of", "draw_links", "link_name"]

MOST = 24
MEGA = 1e6


@dataclass(frozen=True)
class Crossing:
    """Predicted bytes a step over one direction of a link, and the seconds for which these fill it."""

    link: Link
    winner_bytes: float
    baseline_bytes: float

    @property
    def seconds(self) -> float:
        return self.winner_bytes / self.link.bytes_per_second

    @property
    def baseline_seconds(self) -> float:
        return self.baseline_bytes / self.link.bytes_per_second


def crossings_of(model: ModelSpec, cluster: ClusterSpec, winner: Strategy, baseline: Strategy) -> list[Crossing]:
    """Every direction that either strategy fills, the one that the winner fills longest first."""
    ours, theirs = (traffic(model, cluster, each).bytes.tolist() for each in (winner, baseline))
    found = [Crossing(*each) for each in zip(cluster.links, ours, theirs, strict=True)]
    return sorted((each for each in found if each.winner_bytes or each.baseline_bytes), key=lambda each: -each.seconds)


def link_name(link: Link) -> str:
    return f"within {link.source}" if link.source == link.target else f"{link.source} to {link.target}"


def draw_links(crossings: Sequence[Crossing], winner: str, baseline: str, width: Width) -> Drawing:
    """Two bars a link, with the milliseconds for which each strategy's bytes fill it."""
    shown = crossings[:MOST]
    figure = figure_of(width, rows_inches(len(shown), width.is_narrow) + 0.06 * len(shown) + 0.3)
    axes = figure.subplots()
    for row, each in enumerate(shown):
        axes.barh(row - 0.13, each.winner_bytes / MEGA, 0.24, color=INK.light)
        axes.barh(row + 0.13, each.baseline_bytes / MEGA, 0.24, color=FAINT.light)
        text = " / ".join(_ms(seconds) for seconds in (each.seconds, each.baseline_seconds)) + " ms"
        furthest = max(each.winner_bytes, each.baseline_bytes) / MEGA
        axes.annotate(
            text,
            (furthest, row),
            xytext=(4, 0),
            textcoords="offset points",
            fontsize=8.0,
            color=MUTED.light,
            va="center",
        )
    rows_axis(axes, [link_name(each.link) for each in shown], width.is_narrow)
    most = max(max(each.winner_bytes, each.baseline_bytes) for each in shown) / MEGA
    axes.set(xlim=(0, most * (1.35 if width.is_narrow else 1.18)), xlabel="predicted megabytes a step")
    handles = [Patch(color=INK.light, label=winner), Patch(color=FAINT.light, label=baseline)]
    legend_below(figure, handles, width)
    return Drawing(figure)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}" if seconds else "0"
