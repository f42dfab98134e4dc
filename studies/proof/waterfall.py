"""The waterfall of a step: the parts of its time, from the passes to the measured step, by bounds and replays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import Figure

from autosync.cost import REPLAY_PRIORS, Replay, ReplayCoefficients, step_bound
from autosync.cost.capacity import draw_passes
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.spec.node import LEAST_FIGURE
from autosync.spec.node import Figure as ClusterFigure
from autosync.stats.cells import CellName
from autosync.stats.tables import TextTable, tenths
from studies.bench.contenders import OURS
from studies.bench.pictures import COLORS
from studies.proof.cells import FRAMEWORK, ProofJob
from studies.proof.outcomes import JobOutcome

PARTS: Mapping[str, str] = {
    "passes": "the paced passes",
    "links": "the bound less the passes: the fewest possible bytes at the links' full rates, without a barrier",
    "schedule": "the excess of the strategy's exchange over its bound, with all gradients released at once and free "
    "messages and processors",
    "order": "the wait for gradients that are released late or values that are read early, in the strategy's order and "
    "with its barrier; negative where passes hide a slow schedule",
    "messages": "latency, and the links' overhead of headers and pauses",
    "processors": "messages, copies, sums and updates on the cores",
    "rest": "the measured step less the replayed one",
}
"""The parts of a step in the order of the waterfall, and their definitions."""

MOST_CELLS = 5
NO_LATENCY = ClusterFigure(LEAST_FIGURE, "assumed")
NO_PASS_SECONDS = 1e-6
FREE = ReplayCoefficients(
    step_overhead_seconds=0.0,
    core_seconds_per_message=0.0,
    core_seconds_per_byte=0.0,
    core_seconds_per_reduced_byte=0.0,
    core_seconds_per_updated_byte=0.0,
    core_seconds_per_shard=0.0,
    link_overhead=0.0,
)
"""Coefficients of messages and processors that cost nothing."""


@dataclass(frozen=True)
class Waterfall:
    """The strategy of guided search in a cell, and the parts of its step in seconds, which add up to the step."""

    cell: CellName
    seconds: Mapping[str, float]


def parts_of(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy, step_seconds: float) -> dict[str, float]:
    """Return the seconds of `PARTS` in a measured step of `strategy` on a paced cluster. Their sum is the step."""
    usual = REPLAY_PRIORS[FRAMEWORK]
    with_overhead = replace(FREE, link_overhead=usual.link_overhead)
    ideal = replace(cluster, links=tuple(replace(link, latency_us=NO_LATENCY) for link in cluster.links))
    passes = draw_passes(model, cluster, strategy.replicas)
    assert passes is not None, "the proof's cells are paced"
    at_once = _without_passes(ideal)
    levels = [
        passes.least_seconds,
        step_bound(model, cluster, overlaps=True).seconds,
        _replay_seconds(model, ideal, strategy, FREE),
        _replay_seconds(model, cluster, strategy, with_overhead),
        _replay_seconds(model, cluster, strategy, usual),
        step_seconds,
    ]
    links, schedule_and_order, messages, processors, rest = np.diff(levels).tolist()
    schedule = _replay_seconds(model, at_once, strategy, FREE) - step_bound(model, at_once, overlaps=True).seconds
    order = schedule_and_order - schedule
    return dict(zip(PARTS, (levels[0], links, schedule, order, messages, processors, rest), strict=True))


def _replay_seconds(
    model: ModelSpec, cluster: ClusterSpec, strategy: Strategy, coefficients: ReplayCoefficients
) -> float:
    return float(np.exp(Replay(coefficients).predict(model, cluster, [strategy])[0]))


def _without_passes(cluster: ClusterSpec) -> ClusterSpec:
    """The cluster with passes so short that all gradients are released at once."""
    return replace(
        cluster,
        nodes=tuple(
            replace(node, pace=replace(node.pace, scale=0.0, fixed_seconds=NO_PASS_SECONDS, batch_seconds=0.0))
            if node.pace
            else node
            for node in cluster.nodes
        ),
    )


def waterfalls(cells: Mapping[CellName, Sequence[JobOutcome]], records: Iterable[RuntimeRecord]) -> list[Waterfall]:
    """Return the waterfalls of the `MOST_CELLS` cells whose steps are the longest multiples of their bounds.

    The strategy of a cell is that of its first seed. A cell whose trial is not among `records` is left out.
    """
    known = {(record.run, record.strategy.digest): record for record in records}
    timed = []
    for cell, (job, *_) in cells.items():
        ours = job.finalist(OURS)
        record = None if ours is None else known.get((ProofJob(cell, ours["seed"]).run, ours["strategy"]))
        if record is not None:
            timed.append((cell, job, record))
    timed.sort(key=lambda item: -item[1].seconds(OURS) / item[1].bound_seconds)
    return [
        Waterfall(cell, parts_of(record.model, record.cluster, record.strategy, job.seconds(OURS)))
        for cell, job, record in timed[:MOST_CELLS]
    ]


def waterfall_table(falls: Sequence[Waterfall]) -> TextTable:
    """Return the table of all waterfalls, in milliseconds."""
    about = "; ".join(f"*{part}*: {words}" for part, words in PARTS.items())
    return TextTable(
        "waterfall",
        "The steps that are farthest above their bounds",
        f"Milliseconds of a step of guided search's strategy, in parts that add up to it. {about}.",
        ("cluster", "model", *PARTS, "step"),
        [
            (
                fall.cell.cluster,
                fall.cell.model,
                *(tenths(1e3 * seconds) for seconds in fall.seconds.values()),
                tenths(1e3 * sum(fall.seconds.values())),
            )
            for fall in falls
        ],
    )


def waterfall_picture(falls: Sequence[Waterfall]) -> Figure:
    """Draw the steps of each cell's waterfall: a part begins where the part above it ends, and a negative part goes
    back.
    """
    figure = Figure(figsize=(9, 1.4 + 1.1 * len(falls)))
    axis = figure.subplots()
    height = 0.8 / len(PARTS)
    for row, fall in enumerate(falls):
        ends = 1e3 * np.cumsum(list(fall.seconds.values()))
        for place, seconds in enumerate(fall.seconds.values()):
            label = list(PARTS)[place] if not row else None
            at = row + (place - (len(PARTS) - 1) / 2) * height
            axis.barh(at, 1e3 * seconds, height, ends[place] - 1e3 * seconds, color=COLORS[place], label=label)
        axis.plot([ends[-1]] * 2, [row - 0.4, row + 0.4], color="#000000", linewidth=2)
    axis.set_yticks(range(len(falls)), [str(fall.cell) for fall in falls], fontsize=8)
    axis.set_ylim(max(len(falls), 1) - 0.5, -0.5)
    axis.set_xlabel("milliseconds; black: the measured step")
    if falls:
        axis.legend(ncols=len(PARTS), fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure
