"""Draws the bytes that a strategy sends over each link, compared with the best baseline, and the content of each
server and bucket.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from autosync.cost import traffic
from autosync.layout.fusion import Layout
from autosync.layout.shards import Shard
from autosync.report.blocks import Drawing
from autosync.report.pictures.axes import figure_of, legend_below, rows_axis, rows_inches
from autosync.report.style import FAINT, INK, MUTED, PAPER, Colour, Width, look_of
from autosync.spec import AllReduce, ClusterSpec, Link, ModelSpec, ParameterServer, Strategy
from autosync.words.quantities import count_of, megabytes
from autosync.words.strategy import algorithm_in_words, compressor_in_words

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
    """Every link direction that either strategy uses, the one that the winner fills longest first."""
    ours, theirs = (traffic(model, cluster, strategy).bytes.tolist() for strategy in (winner, baseline))
    crossings = [Crossing(*values) for values in zip(cluster.links, ours, theirs, strict=True)]
    return sorted(
        (crossing for crossing in crossings if crossing.winner_bytes or crossing.baseline_bytes),
        key=lambda crossing: -crossing.seconds,
    )


def link_name(link: Link) -> str:
    return f"within {link.source}" if link.source == link.target else f"{link.source} to {link.target}"


def draw_links(crossings: Sequence[Crossing], winner: str, baseline: str, width: Width) -> Drawing:
    """Draw two bars per link, with the milliseconds for which each strategy's bytes fill the link."""
    shown = crossings[:MOST]
    figure = figure_of(width, rows_inches(len(shown), width.is_narrow) + 0.06 * len(shown) + 0.3)
    axes = figure.subplots()
    for row, crossing in enumerate(shown):
        axes.barh(row - 0.13, crossing.winner_bytes / MEGA, 0.24, color=INK.light)
        axes.barh(row + 0.13, crossing.baseline_bytes / MEGA, 0.24, color=FAINT.light)
        text = " / ".join(_ms(seconds) for seconds in (crossing.seconds, crossing.baseline_seconds)) + " ms"
        furthest = max(crossing.winner_bytes, crossing.baseline_bytes) / MEGA
        axes.annotate(
            text,
            (furthest, row),
            xytext=(4, 0),
            textcoords="offset points",
            fontsize=8.0,
            color=MUTED.light,
            va="center",
        )
    rows_axis(axes, [link_name(crossing.link) for crossing in shown], width.is_narrow)
    most = max(max(crossing.winner_bytes, crossing.baseline_bytes) for crossing in shown) / MEGA
    axes.set(xlim=(0, most * (1.35 if width.is_narrow else 1.18)), xlabel="predicted megabytes a step")
    handles = [Patch(color=INK.light, label=winner), Patch(color=FAINT.light, label=baseline)]
    legend_below(figure, handles, width)
    return Drawing(figure)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}" if seconds else "0"


ROW_INCHES = 0.48
MOST_HELD = 14
"""The maximum number of bars; the caption's table has the smaller holders."""

LETTER_INCHES, BOLD_INCHES = 0.065, 0.081
BAR, HAIRLINE = 0.4, 0.004
"""The height of a bar in rows, and the least length of a bar, as a share of the longest."""

GATHERED = "everywhere"


@dataclass(frozen=True)
class Holder:
    """A server, a bucket, or all replicas if they gather: its name, its method, and the shards that it adds up."""

    name: str
    how: str
    architecture: str
    parts: tuple[Shard, ...]

    @property
    def gradient_bytes(self) -> float:
        return sum(part.gradient_bytes for part in self.parts)

    @property
    def variables(self) -> int:
        return len({part.variable.name for part in self.parts})

    @property
    def colour(self) -> Colour:
        return look_of(self.architecture).colour


def holders_of(strategy: Strategy, model: ModelSpec) -> list[Holder]:
    """Every holder, the one with the most bytes of gradients first."""
    held: dict[tuple[str, str], list[Shard]] = {}
    for shard in Layout.of(strategy, model).shards:
        held.setdefault(_kind(shard), []).append(shard)
    ordered = {key: tuple(sorted(parts, key=lambda part: -part.gradient_bytes)) for key, parts in held.items()}
    largest_first = sorted(ordered.items(), key=lambda item: -sum(part.gradient_bytes for part in item[1]))
    numbers = itertools.count(1)
    return [Holder(_name(*key, numbers), _how(parts), key[0], parts) for key, parts in largest_first]


def _name(architecture: str, where: str, numbers: Iterator[int]) -> str:
    if architecture == "parameter servers":
        return f"server {where}"
    if where == GATHERED:
        return f"{'rows' if architecture == 'gathered rows' else 'parts'} that every replica gathers"
    return f"bucket {next(numbers)}"


def draw_holders(holders: Sequence[Holder], width: Width) -> Drawing:
    """Draw bars to one scale; a segment is a shard, the largest first."""
    shown = holders[:MOST_HELD]
    figure = figure_of(width, 0.45 + ROW_INCHES * len(shown))
    axes = figure.subplots()
    longest = max(holder.gradient_bytes for holder in shown)
    for row, holder in enumerate(shown):
        _draw_bar(axes, holder, row, longest, width)
    axes.set(xlim=(0, longest), ylim=(len(shown) - 0.5, -0.75), yticks=[])
    axes.grid(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.set_xticks([])
    return Drawing(figure)


def _draw_bar(axes: Axes, holder: Holder, row: int, longest: float, width: Width) -> None:
    text = f"{megabytes(holder.gradient_bytes)}, {count_of(holder.variables, 'variable')}"
    how = f"; {holder.how}" if holder.how else ""
    axes.text(0, row - 0.27, holder.name, fontsize=8.5, fontweight="bold", va="bottom")
    title = axes.annotate(
        f"{text}{how}", (0, row - 0.27), xytext=(72 * BOLD_INCHES * len(holder.name) + 6, 0),
        textcoords="offset points", fontsize=8.0, color=MUTED.light, va="bottom", annotation_clip=False,
    )  # fmt: skip
    title.set_in_layout(False)
    if holder.gradient_bytes < HAIRLINE * longest:
        axes.barh(row, HAIRLINE * longest, BAR, color=holder.colour.light)
        return
    begin = 0.0
    for place, part in enumerate(holder.parts):
        size = part.gradient_bytes
        axes.barh(
            row, size, BAR, left=begin, color=holder.colour.light, alpha=1.0 if place % 2 == 0 else 0.86,
            edgecolor=PAPER.light, linewidth=0.6,
        )  # fmt: skip
        room = size / longest * width.inches * 0.95
        label = next((label for label in _labels(part) if LETTER_INCHES * len(label) < room), None)
        if label is not None:
            axes.text(begin + 0.006 * longest, row, label, fontsize=8.0, color=PAPER.light, va="center")
        begin += size


def _labels(part: Shard) -> Iterator[str]:
    """The variable's name, in full or short, with the shard's number and the number of shards."""
    *_, layer, last = ("", *part.variable.name.split("/"))
    shard = f" {part.slice.index + 1}/{part.slice.count}" if part.slice.count > 1 else ""
    yield from dict.fromkeys([f"{layer}/{last}{shard}".removeprefix("/"), f"{layer or last}{shard}"])


def _kind(part: Shard) -> tuple[str, str]:
    """The architecture and the place. Parts that all replicas gather are added up on each replica, in no bucket."""
    shard = part.synchronizer
    if isinstance(shard, ParameterServer):
        return "parameter servers", shard.device
    if part.variable.sparse:
        return "gathered rows", GATHERED
    return "all-reduce", GATHERED if shard.gathers else str(shard.group)


def _how(parts: Sequence[Shard]) -> str:
    """The methods by which the shards are added up: algorithms, local copies, staleness and encodings that occur."""
    words: dict[str, None] = {}
    for part in parts:
        shard = part.synchronizer
        if isinstance(shard, AllReduce):
            if not part.variable.sparse and not shard.gathers:
                words[algorithm_in_words(shard.algorithm)] = None
        else:
            if shard.local_copy:
                words["local copies"] = None
            if shard.staleness:
                words[f"staleness {shard.staleness}"] = None
        if shard.compressor is not None:
            words[compressor_in_words(shard.compressor)] = None
    return ", ".join(words)
