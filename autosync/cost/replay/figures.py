"""What a replayed step says about a strategy and each of its variables, beside its seconds."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.replay.queues import Timeline, replayed
from autosync.cost.replay.step import Step

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class VariableFigures:
    """Seconds from the step's beginning, float64 (variables,), in the model's order.

    `ready`: the gradient is there; `first_sent`: the first of it is under way (of a bucket's variables: of the bucket);
    `arrived`: all of it has arrived and all values are updated, everywhere; `slack`: how much later that could be
    without a longer step.
    """

    ready: FloatArray
    first_sent: FloatArray
    arrived: FloatArray
    slack: FloatArray


@dataclass(frozen=True, eq=False)
class StepFigures:
    """One step, in seconds. While it communicates, messages, sums or updates are under way; exposed is what of that is
    beside the passes.

    `utilization` float64 (resources,) is the share of the step in which each resource is busy, and `resources` says
    what they are: each link's direction, each node's cores, each server, the cores of machines that nodes share.
    `busiest_link` and `busiest_server` are the largest shares of each kind.
    """

    step_seconds: float
    compute_seconds: float
    communication_seconds: float
    exposed_seconds: float
    busiest_link: float
    busiest_server: float
    resources: tuple[str, ...]
    utilization: FloatArray
    variables: VariableFigures


def step_figures(step: Step, coefficients: ReplayCoefficients) -> StepFigures:
    """The figures of one replay."""
    tasks, first = step.tasks(coefficients), step.graph.passes
    timeline = replayed(step.folded(tasks))
    overhead = coefficients.step_overhead_seconds
    seconds = overhead + float(timeline.end.max())
    utilization = tasks.total()[step.catalogue.places.of_column] / max(seconds, 1e-12)
    passes = (float(timeline.begin[0]), float(timeline.end[first - 1]))
    communication, exposed = _under_way(timeline.begin[first:], timeline.end[first:], passes)
    resources = step.resources
    return StepFigures(
        step_seconds=seconds,
        compute_seconds=passes[1] - passes[0],
        communication_seconds=communication,
        exposed_seconds=exposed,
        busiest_link=float(utilization[resources.links].max()),
        busiest_server=float(utilization[resources.servers].max()),
        resources=resources.names,
        utilization=utilization,
        variables=_of_variables(step, coefficients, timeline),
    )


def _under_way(begin: FloatArray, end: FloatArray, passes: tuple[float, float]) -> tuple[float, float]:
    """Seconds in which any of the tasks is under way, and how many of these are outside of the passes."""
    if not len(begin):
        return 0.0, 0.0
    points = np.unique(np.concatenate([begin, end, passes]))
    middles, lengths = (points[1:] + points[:-1]) / 2, np.diff(points)
    # So many have begun by then, less those that have ended.
    running = np.searchsorted(np.sort(begin), middles) - np.searchsorted(np.sort(end), middles)
    covered = running > 0
    outside = (middles < passes[0]) | (middles > passes[1])
    return float(lengths[covered].sum()), float(lengths[covered & outside].sum())


def _of_variables(step: Step, coefficients: ReplayCoefficients, timeline: Timeline) -> VariableFigures:
    graph, model = step.graph, step.passes.model
    overhead, last = coefficients.step_overhead_seconds, float(timeline.end.max())
    number = {variable.name: place for place, variable in enumerate(model.variables)}
    fractions = step.passes.ready
    moments = [fractions[each.name] for each in model.variables]
    ready = np.interp(moments, step.progress(coefficients), timeline.end[: graph.passes])
    first_sent, arrived = np.full(len(number), np.inf), np.zeros(len(number))
    for shipment, tasks in zip(graph.shipments, graph.of_shipment, strict=True):
        if not tasks:
            continue
        for name in shipment.variables:
            place = number[name]
            first_sent[place] = min(first_sent[place], timeline.begin[tasks[0]])
            arrived[place] = max(arrived[place], timeline.end[tasks[-1]])
    alone = np.isinf(first_sent)  # a single replica sends nothing
    first_sent[alone], arrived[alone] = ready[alone], ready[alone]
    return VariableFigures(ready + overhead, first_sent + overhead, arrived + overhead, last - arrived)
