"""The communication of a replayed step that is hidden under passes, and the times at which nodes and links are busy."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.replay.figures import are_under_way
from autosync.cost.replay.recipes import MANY
from autosync.cost.replay.step import ReplayContext, ReplayedStep
from autosync.numeric import BoolArray, FloatArray
from autosync.spec import Device, Link, Strategy


class Span(NamedTuple):
    """A time at which a pass runs or messages are on a link, in seconds from the start of the step."""

    kind: str
    """A pass, "forward" or "backward", or the stage of a shipment, "pull", "push", "work" or "send"."""

    variables: tuple[str, ...]
    """The variables that travel together; empty for passes."""

    begin: float
    end: float


@dataclass(frozen=True, eq=False)
class StepOverlap:
    """Communication (messages, sums and updates under way) of one step by the passes that run meanwhile, in seconds."""

    step_seconds: float

    forward_seconds: float
    """Under a forward pass, while no replica is in its backward pass."""

    backward_seconds: float
    """Under a replica's backward pass."""

    before_seconds: float
    """Exposed before the first pass begins."""

    after_seconds: float
    """Exposed at any other time: no replica is in a pass."""

    passes: dict[str, tuple[Span, ...]]
    """The passes of each node with replicas."""

    last: Span | None
    """The message, sum or update that ends last; None for steps without any."""

    @property
    def communication_seconds(self) -> float:
        return self.forward_seconds + self.backward_seconds + self.exposure_seconds

    @property
    def exposure_seconds(self) -> float:
        return self.before_seconds + self.after_seconds

    @property
    def outside_seconds(self) -> float:
        """Seconds of the step outside the passes of the slowest replica, with communication or without."""
        return self.step_seconds - max(sum(span.end - span.begin for span in spans) for spans in self.passes.values())


def overlap_step(context: ReplayContext, strategy: Strategy) -> ReplayedStep:
    """The step for `step_overlap`: on a paced cluster, every replica's passes have the replica's own median duration.

    Raises `SpecError` if the strategy does not fit.
    """
    paced = context.passes.paced
    if paced is None or not 1 < len(strategy.replicas) < MANY:
        return context.step(strategy)
    return context.step(strategy, apart=True).with_separate_passes(paced.medians)


def step_overlap(step: ReplayedStep, coefficients: ReplayCoefficients) -> StepOverlap:
    """The overlap in one replay of `step`.

    A pass begins once the values that it waits for have arrived, so a forward pass that waits in parts for the values
    of the previous step has a span a part, and its waits are exposed.
    """
    graph, timeline, start = step.graph, step.timeline(coefficients), step.overhead_seconds(coefficients)
    kinds = np.array([graph.kind(task) for task in range(len(timeline.end))])
    # A task is ready when its predecessors have ended; a pass may then still wait for cores.
    is_forward, is_backward = kinds == "forward", kinds == "backward"
    is_pass = is_forward | is_backward
    begin, end = np.where(is_pass, timeline.ready, timeline.begin), timeline.end
    points = np.unique(np.concatenate([begin, end]))
    middles, lengths = (points[1:] + points[:-1]) / 2, np.diff(points)

    def moments_with(tasks: BoolArray) -> BoolArray:
        return are_under_way(begin[tasks], end[tasks], middles)

    def seconds(moments: BoolArray) -> float:
        return float(lengths[moments].sum())

    talks, forward, backward = moments_with(~is_pass), moments_with(is_forward), moments_with(is_backward)
    exposed, early = talks & ~forward & ~backward, middles < begin[is_pass].min()
    return StepOverlap(
        step_seconds=start + float(end.max()),
        forward_seconds=seconds(talks & forward & ~backward),
        backward_seconds=seconds(talks & backward),
        before_seconds=seconds(exposed & early),
        after_seconds=seconds(exposed & ~early),
        passes=_passes(step, begin + start, end + start),
        last=_last(step, begin + start, end + start),
    )


def link_spans(step: ReplayedStep, coefficients: ReplayCoefficients) -> list[tuple[Link, tuple[Span, ...]]]:
    """The spans of each link that carries messages, in order of time; one span for every portion of a task."""
    columns, links = step.catalogue.places.columns.tolist(), step.resources.cluster.links
    spans: dict[int, list[Span]] = {}
    start = step.overhead_seconds(coefficients)

    def observe(task: int, place: int, begin: float, end: float) -> None:
        if (column := columns[place]) < len(links) and task >= step.graph.passes:
            span = Span(step.graph.kind(task), step.graph.variables(task), begin + start, end + start)
            spans.setdefault(column, []).append(span)

    step.timeline(coefficients, observe)
    return [(links[column], tuple(sorted(spans[column], key=lambda span: span.begin))) for column in sorted(spans)]


def _passes(step: ReplayedStep, begin: FloatArray, end: FloatArray) -> dict[str, tuple[Span, ...]]:
    """The passes of each node in order of time. With passes of several replicas, a node has those of its slowest."""
    graph, passes, begins, ends = step.graph, dict[str, tuple[Span, ...]](), begin.tolist(), end.tolist()
    length = graph.passes // graph.apart

    def tasks_of(replica: int) -> range:
        first = (replica % graph.apart) * length
        return range(first, first + length)

    def end_of(replica: int) -> float:
        return float(end[tasks_of(replica)].max())

    for number, replica in sorted(enumerate(step.catalogue.replicas), key=lambda item: end_of(item[0])):
        spans = [Span(graph.kind(task), (), begins[task], ends[task]) for task in tasks_of(number)]
        passes[Device.parse(replica).node] = tuple(sorted(spans, key=lambda span: span.begin))
    return {node.name: passes[node.name] for node in step.resources.cluster.nodes if node.name in passes}


def _last(step: ReplayedStep, begin: FloatArray, end: FloatArray) -> Span | None:
    first = step.graph.passes
    if len(end) == first:
        return None
    task = first + int(end[first:].argmax())
    return Span(step.graph.kind(task), step.graph.variables(task), float(begin[task]), float(end[task]))
