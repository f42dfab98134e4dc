"""Figures of a replayed step: for the strategy, and for each of its variables."""

from dataclasses import dataclass

import numpy as np

from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.replay.queues import Timeline, replay_tasks
from autosync.cost.replay.step import ReplayedStep
from autosync.numeric import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class VariableFigures:
    """Seconds from the start of the step, float64 (variables,), in the model's order."""

    ready: FloatArray
    """When the gradient is ready."""

    first_sent: FloatArray
    """When the first part of the gradient is sent; for a variable in a bucket, the first part of the bucket."""

    arrived: FloatArray
    """When the complete gradient has arrived and all values are updated, on all devices."""

    slack: FloatArray
    """The seconds by which `arrived` could be later without a longer step."""


@dataclass(frozen=True, eq=False)
class StepFigures:
    """The figures of one step."""

    step_seconds: float

    compute_seconds: float
    """Seconds from the start of the first pass to the end of the last, including waits for values between them."""

    communication_seconds: float
    """Seconds in which messages, sums or updates are under way."""

    exposed_seconds: float
    """The communication seconds outside the passes."""

    busiest_link: float
    """The largest utilization of a link."""

    busiest_server: float
    """The largest utilization of a server."""

    resources: tuple[str, ...]
    """The names of the resources: the directions of links, nodes' cores, servers, cores of machines that nodes share.
    """

    utilization: FloatArray
    """The share of the step in which each resource is busy, float64 (resources,)."""

    variables: VariableFigures


def step_figures(step: ReplayedStep, coefficients: ReplayCoefficients) -> StepFigures:
    """The figures of one replay."""
    tasks, first = step.tasks(coefficients), step.graph.passes
    timeline = replay_tasks(step.fold(tasks))
    overhead = step.overhead_seconds(coefficients)
    seconds = overhead + float(timeline.end.max())
    utilization = tasks.total()[step.catalogue.places.of_column] / max(seconds, 1e-12)
    passes = (float(timeline.begin[:first].min()), float(timeline.end[:first].max()))
    # A forward pass that waits for values hides nothing meanwhile.
    computing = (timeline.begin[:first], timeline.end[:first]) if step.graph.overlaps else np.array(passes)[:, None]
    communication, exposed = _under_way(timeline.begin[first:], timeline.end[first:], *computing)
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


def _under_way(begin: FloatArray, end: FloatArray, pass_begin: FloatArray, pass_end: FloatArray) -> tuple[float, float]:
    """Seconds in which any of the tasks is under way, and the part of these seconds outside the passes."""
    if not len(begin):
        return 0.0, 0.0
    points = np.unique(np.concatenate([begin, end, pass_begin, pass_end]))
    middles, lengths = (points[1:] + points[:-1]) / 2, np.diff(points)
    covered = are_under_way(begin, end, middles)
    outside = ~are_under_way(pass_begin, pass_end, middles)
    return float(lengths[covered].sum()), float(lengths[covered & outside].sum())


def are_under_way(begin: FloatArray, end: FloatArray, moments: FloatArray) -> BoolArray:
    """Whether any task is under way at each of `moments`, given the tasks' begins and ends; bool (moments,)."""
    # The tasks that have begun by then, minus the tasks that have ended.
    running: BoolArray = np.searchsorted(np.sort(begin), moments) > np.searchsorted(np.sort(end), moments)
    return running


def _of_variables(step: ReplayedStep, coefficients: ReplayCoefficients, timeline: Timeline) -> VariableFigures:
    graph, model = step.graph, step.passes.model
    overhead, last = step.overhead_seconds(coefficients), float(timeline.end.max())
    number = {variable.name: place for place, variable in enumerate(model.variables)}
    fractions = step.passes.ready
    moments = [fractions[variable.name] for variable in model.variables]
    forwards = len(graph.reads)
    begin = 0.0 if graph.overlaps else timeline.end[forwards - 1]  # of the backward pass
    progress = np.concatenate([[0.0], step.progress(coefficients)[forwards:]])
    ready = np.interp(moments, progress, np.concatenate([[begin], timeline.end[forwards : graph.passes]]))
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
