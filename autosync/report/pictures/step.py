"""Draws one predicted step: the passes of each node, and the messages on each link."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from autosync.cost import Span, StepOverlap
from autosync.report.blocks import Drawing
from autosync.report.pictures.axes import DASHED, MILLI, figure_of, legend_below, rows_axis, rows_inches
from autosync.report.pictures.strategy import LETTER_INCHES, link_name
from autosync.report.style import FAINT, MUTED, PAPER, SERIES, Colour, Width
from autosync.spec import Link

MOST_NODES, MOST_LINKS = 8, 12
"""The maximum numbers of nodes and of links that are drawn."""

SHORTEST = 1 / 800
"""Times shorter than this share of a step are drawn together with the time before."""

EDGE, EDGED_INCHES = 0.4, 0.03
"""The width of a bar's edge in points, and the least length of a bar that has one."""

KINDS: Mapping[str, tuple[Colour, str]] = {
    "forward": (FAINT, "forward pass"),
    "backward": (MUTED, "backward pass"),
    "push": (SERIES[0], "gradients"),
    "pull": (SERIES[1], "values"),
    "send": (SERIES[1], "values"),
}
"""The colour and the name of each kind of span."""


@dataclass(frozen=True)
class StepLanes:
    """The lanes of a picture: nodes with their passes, then links with their messages, in seconds."""

    overlap: StepOverlap
    nodes: Mapping[str, Sequence[Span]]
    links: Mapping[str, Sequence[Span]]
    hidden: int
    """The number of nodes and links that are not drawn."""


def lanes_of(overlap: StepOverlap, links: Sequence[tuple[Link, Sequence[Span]]]) -> StepLanes:
    """The lanes of the first nodes and of the busiest links, in the order of the cluster."""
    busiest = sorted(links, key=lambda link: -sum(span.end - span.begin for span in link[1]))[:MOST_LINKS]
    shortest = SHORTEST * overlap.step_seconds
    names = {link_name(link) for link, _ in busiest}
    return StepLanes(
        overlap,
        dict(itertools.islice(((node, _join(spans, shortest)) for node, spans in overlap.passes.items()), MOST_NODES)),
        {link_name(link): _join(spans, shortest) for link, spans in links if link_name(link) in names},
        max(0, len(overlap.passes) - MOST_NODES) + len(links) - len(busiest),
    )


def _join(spans: Sequence[Span], shortest: float) -> list[Span]:
    """The spans with those of one kind and shipment joined if they touch, and with those too short to see."""
    joined: list[Span] = []
    for span in spans:
        before = joined[-1] if joined else None
        if before is not None and span.begin - before.end < shortest:
            same = (span.kind, span.variables) == (before.kind, before.variables)
            if same or span.end - before.end < shortest:
                joined[-1] = before._replace(end=max(before.end, span.end))
                continue
        joined.append(span)
    return joined


def draw_step(lanes: StepLanes, width: Width) -> Drawing:
    """Draw a row for each lane. Lines mark the begin and the end of the passes."""
    rows = {**lanes.nodes, **lanes.links}
    figure = figure_of(width, rows_inches(len(rows), width.is_narrow) + 0.3)
    axes = figure.subplots()
    step = MILLI * lanes.overlap.step_seconds
    for row, spans in enumerate(rows.values()):
        _draw_spans(axes, row, spans, width.inches * (0.95 if width.is_narrow else 0.8) / step)
    rows_axis(axes, list(rows), width.is_narrow)
    passes = [span for spans in lanes.overlap.passes.values() for span in spans]
    for moment in (min(span.begin for span in passes), max(span.end for span in passes)):
        axes.axvline(MILLI * moment, **DASHED, zorder=1)
    axes.set(xlim=(0, step), xlabel="predicted milliseconds from the start of the step")
    drawn = {span.kind for spans in rows.values() for span in spans}
    looks = {KINDS[kind][1]: KINDS[kind][0] for kind in KINDS if kind in drawn}
    legend_below(figure, [Patch(color=colour.light, label=name) for name, colour in looks.items()], width)
    return Drawing(figure)


def _draw_spans(axes: Axes, row: int, spans: Sequence[Span], inches: float) -> None:
    """Draw the spans of a lane, with the name of a variable where it fits; a millisecond has `inches`."""
    for place, span in enumerate(spans):
        begin, long = MILLI * span.begin, MILLI * (span.end - span.begin)
        colour, _ = KINDS[span.kind]
        edge = EDGE if span.variables and long * inches > EDGED_INCHES else 0.0
        axes.barh(
            row, long, 0.56, left=begin, color=colour.light, alpha=0.8 if span.variables and place % 2 else 1.0,
            edgecolor=PAPER.light, linewidth=edge, zorder=2,
        )  # fmt: skip
        label = next((label for label in _labels(span) if LETTER_INCHES * (len(label) + 1) < long * inches), None)
        if label is not None:
            axes.text(begin + long / 2, row, label, fontsize=7.5, color=PAPER.light, ha="center", va="center", zorder=4)


def _labels(span: Span) -> Iterator[str]:
    """The last parts of the first variable's name, the longest first, with the number of further variables."""
    if span.variables:
        more = f" +{len(span.variables) - 1}" if len(span.variables) > 1 else ""
        parts = span.variables[0].split("/")
        yield from (f"{'/'.join(parts[first:])}{more}" for first in range(len(parts)))
