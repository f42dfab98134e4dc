"""Draws the cluster: nodes on their switches, with the rates of their links in both directions and the rates'
sources.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch

from autosync.report.blocks import Drawing
from autosync.report.numbers import rate
from autosync.report.pictures.axes import figure_of, legend_below
from autosync.report.style import FAINT, INK, MUTED, PAPER, Width
from autosync.spec import ClusterSpec, Figure, Link, Node
from autosync.words.cluster import node_in_words, pace_in_words

MOST_NODES = 24
ROW_INCHES, LINE_INCHES = 0.46, 0.13
"""The height of a row whose node has one line under its name, and of every further line."""

LETTER_INCHES, MARGIN = 0.062, 0.014
"""The average width of a letter, and the margin around the text in a node's box, as a share of the width."""

STYLES: Mapping[str, Any] = {"measured": "-", "stated": (0, (5, 2)), "assumed": (0, (1, 1.6))}
UP, DOWN = "\N{UPWARDS ARROW}", "\N{DOWNWARDS ARROW}"
BAR = 0.014
BETWEEN_INCHES = 0.15
"""The gap between the boxes of two rows."""


@dataclass
class _Place:
    """A node or switch: its column from the left, and the rows it spans."""

    column: int
    rows: list[int] = field(default_factory=list)

    @property
    def middle(self) -> float:
        return (self.rows[0] + self.rows[-1]) / 2


def draw_cluster(cluster: ClusterSpec, width: Width) -> Drawing:
    """A drawing of the first `MOST_NODES` nodes."""
    nodes = cluster.nodes[:MOST_NODES]
    above = _above(cluster)
    places = _places(cluster, nodes, above)
    rows = max((row for place in places.values() for row in place.rows), default=0) + 1
    columns = 1 + max((places[switch].column for switch in cluster.switches if switch in places), default=-1)
    left, right = (0.5 if width.is_narrow else 0.56, 0.995) if columns else (0.005, 0.995 if width.is_narrow else 0.5)
    letters = int((right - left - 2 * MARGIN) * width.inches / LETTER_INCHES)
    texts = {node.name: _lines(cluster, node, letters) for node in nodes}
    row_inches = ROW_INCHES + LINE_INCHES * (max(map(len, texts.values())) - 1)
    half = (1 - BETWEEN_INCHES / row_inches) / 2
    figure = figure_of(width, 0.75 - 0.55 * ROW_INCHES + row_inches * (rows + 0.55))
    axes = figure.subplots()
    axes.set(xlim=(0, 1), ylim=(rows - 0.4, -0.95))
    axes.axis("off")
    lefts = [0.02 + column * (left - 0.02) / max(columns, 1) for column in range(columns)]
    for switch in cluster.switches:
        if switch in places:
            _draw_switch(axes, switch, places[switch], lefts[places[switch].column], half)
    for name, switch in above.items():
        if name in places and switch in places:
            here = left if name not in cluster.switches else lefts[places[name].column]
            _draw_links(axes, cluster, (name, switch), (lefts[places[switch].column] + BAR, here), places[name].middle)
    for node in nodes:
        box = _Box(left, right, places[node.name].middle, half, LINE_INCHES / row_inches)
        _draw_node(axes, node.name, texts[node.name], box)
    sources = {link.gbit_per_s.source for link in cluster.links if not columns or link.source != link.target}
    handles = [
        Line2D([], [], color=INK.light, linestyle=STYLES[source], label=source)
        for source in STYLES
        if source in sources
    ]
    legend_below(figure, handles, width)
    return Drawing(figure)


def _above(cluster: ClusterSpec) -> dict[str, str]:
    """The switch above each node and switch: the first later switch to which it is linked."""
    order = {name: place for place, name in enumerate([*(node.name for node in cluster.nodes), *cluster.switches])}
    above: dict[str, str] = {}
    for link in cluster.links:
        if link.target in cluster.switches and order[link.source] < order[link.target]:
            above.setdefault(link.source, link.target)
    return above


def _places(cluster: ClusterSpec, nodes: tuple[Node, ...], above: dict[str, str]) -> dict[str, _Place]:
    """The place of each node and switch: nodes of one switch are in adjacent rows, and a switch spans all rows below
    it.
    """

    def path(name: str) -> list[str]:
        return [*path(above[name]), name] if name in above else [name]

    order = {name: place for place, name in enumerate(cluster.switches)}
    ordered = sorted(nodes, key=lambda node: [order.get(switch, 0) for switch in path(node.name)[:-1]])
    places: dict[str, _Place] = {}
    for row, node in enumerate(ordered):
        for column, name in enumerate(path(node.name)):
            places.setdefault(name, _Place(column)).rows.append(row)
    return places


def _lines(cluster: ClusterSpec, node: Node, letters: int) -> list[str]:
    """Lines of at most `letters` letters that describe a node; its pace begins a line of its own."""
    loops = [link for link in cluster.links if link.source == link.target == node.name]
    inside = [f"within {rate(link.gbit_per_s.value)} Gbit/s" for link in loops] if not cluster.switches else []
    said = [", ".join([node_in_words(replace(node, pace=None)), *inside])]
    said += [pace_in_words(node.pace)] if node.pace else []
    return [line for sentence in said for line in textwrap.wrap(sentence, letters)]


def _draw_switch(axes: Axes, name: str, place: _Place, x: float, half: float) -> None:
    top, bottom = place.rows[0] - half, place.rows[-1] + half / 2  # the bar ends before the name of the next switch
    box = FancyBboxPatch((x, top), BAR, bottom - top, boxstyle="round,pad=0,rounding_size=0.006", linewidth=0)
    box.set_facecolor(MUTED.light)
    axes.add_patch(box)
    axes.text(x, top - 0.1, name, fontsize=8.5, fontweight="bold", va="bottom")


@dataclass(frozen=True)
class _Box:
    """The box of a node: from `left` to `right`, around a `row`; half the box's height and a line's height, in rows."""

    left: float
    right: float
    row: float
    half: float
    line: float


def _draw_node(axes: Axes, name: str, lines: Sequence[str], box: _Box) -> None:
    shape = FancyBboxPatch(
        (box.left, box.row - box.half),
        box.right - box.left,
        2 * box.half,
        boxstyle="round,pad=0,rounding_size=0.012",
        linewidth=1.0,
    )
    shape.set(facecolor=PAPER.light, edgecolor=FAINT.light)
    axes.add_patch(shape)
    x, first = box.left + MARGIN, box.row - len(lines) * box.line / 2
    axes.text(x, first, name, fontsize=8.5, fontweight="bold", va="center")
    for number, line in enumerate(lines, 1):
        axes.text(x, first + number * box.line, line, fontsize=8.0, color=MUTED.light, va="center")


def _draw_links(axes: Axes, cluster: ClusterSpec, ends: tuple[str, str], span: tuple[float, float], row: float) -> None:
    """Draw both directions between a node, or a switch, and the switch above it, as one line with two rates."""
    low, high = ends
    up = next((link for link in cluster.links if (link.source, link.target) == (low, high)), None)
    down = next((link for link in cluster.links if (link.source, link.target) == (high, low)), None)
    known = [link for link in (up, down) if link is not None]
    worst = max((link.gbit_per_s.source for link in known), key=list(STYLES).index)
    axes.plot(span, [row, row], color=INK.light, linewidth=_thickness(cluster, known), linestyle=STYLES[worst])
    parts = [f"{arrow} {_rate(link.gbit_per_s)}" for arrow, link in ((UP, up), (DOWN, down)) if link is not None]
    axes.text(sum(span) / 2, row - 0.08, "  ".join(parts), fontsize=8.0, ha="center", va="bottom")


def _thickness(cluster: ClusterSpec, links: list[Link]) -> float:
    """The width of a line: thin for slow links of the cluster, thick for fast ones."""
    rates = [link.gbit_per_s.value for link in cluster.links if link.source != link.target]
    share = min(link.gbit_per_s.value for link in links) / max(rates)
    return 0.8 + 1.6 * math.sqrt(share)


def _rate(figure: Figure) -> str:
    """The rate in digits; a measured rate has two significant digits."""
    return f"{float(f'{figure.value:.2g}'):g}" if figure.source == "measured" else rate(figure.value)
