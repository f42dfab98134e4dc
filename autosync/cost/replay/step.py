"""One strategy's step, laid out once and then replayed with any coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from autosync.cost.capacity import PassCosts, ResourceColumns
from autosync.cost.closed_form.tables import CostTables, cost_tables
from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.replay.graph import StepGraph, step_graph
from autosync.cost.replay.places import Pattern
from autosync.cost.replay.queues import Observer, Tasks, Timeline, replay_tasks
from autosync.cost.replay.recipes import Catalogue
from autosync.cost.replay.shipments import shipments
from autosync.cost.spec_cache import remember
from autosync.errors import SpecError
from autosync.layout.apart import split_model, split_strategy
from autosync.layout.shards import Slices
from autosync.numeric import FloatArray
from autosync.spec import ClusterSpec, ModelSpec, Strategy, check_strategy


@dataclass(frozen=True, eq=False)
class ReplayedStep:
    """A strategy's step on a cluster: its graph, and the costs of its passes and parts."""

    graph: StepGraph
    catalogue: Catalogue
    passes: PassCosts
    own_seconds: tuple[float, ...] = ()
    """Seconds of each replica's passes, in a graph with separate passes; empty if all passes are equal."""

    @property
    def resources(self) -> ResourceColumns:
        return self.catalogue.resources

    def with_pass_seconds(self, pass_seconds: float) -> ReplayedStep:
        """The same step with paced passes of `pass_seconds`, regardless of their pace."""
        assert self.passes.paced is not None, "only paced passes can be given a duration"
        return replace(self, passes=replace(self.passes, paced=replace(self.passes.paced, seconds=pass_seconds)))

    def with_separate_passes(self, pass_seconds: Sequence[float]) -> ReplayedStep:
        """The same step with paced passes of `pass_seconds`, one per replica; the graph must have separate passes."""
        assert len(pass_seconds) == self.graph.apart
        return replace(self, own_seconds=tuple(pass_seconds))

    def tasks(self, coefficients: ReplayCoefficients) -> Tasks:
        graph, first, catalogue = self.graph, self.graph.passes, self.catalogue
        seconds = [*self._computing(coefficients), *([[]] * len(graph.part_of))]
        chain = np.zeros(len(seconds))
        chain[:first] = self._delays(coefficients)
        costs = catalogue.costs(self.passes.sending_coefficients(coefficients))
        for part, rows, (quantities, chained, shards) in self._alike:
            busy, of_chain, of_shard = costs[part]
            of_groups = (quantities @ busy + shards * of_shard).tolist()
            for row, of_task in zip(rows, of_groups, strict=True):
                seconds[row] = of_task
            chain[rows] = chained @ of_chain + catalogue.parts[part].latency_seconds
        patterns, rank, line = self._patterns, self._rank, self._line
        return Tasks(
            self.resources.count,
            patterns,
            self._pattern_of,
            seconds,
            chain,
            rank,
            line,
            graph.successors,
            graph.waits_for,
            self._urgency,
        )

    def fold(self, tasks: Tasks) -> Tasks:
        """The tasks of this step on fewer places, with the same times."""
        patterns, places = self.catalogue.fold(self._part_numbers)
        return replace(tasks, patterns=patterns, places=places)

    def progress(self, coefficients: ReplayCoefficients) -> FloatArray:
        """The completed share of the backward pass at the end of each pass task, (passes,): 0 for the forward pass,
        then the ends of segments.
        """
        over = 1 - self.passes.overlap(coefficients) * (1 - self.graph.boundaries)
        return np.concatenate([np.zeros(len(self.graph.reads)), over])

    def overhead_seconds(self, coefficients: ReplayCoefficients) -> float:
        """Seconds of overhead before the first task; 0 if the overhead is a task, during which gradients travel."""
        return 0.0 if self.graph.overlaps else coefficients.step_overhead_seconds

    def timeline(self, coefficients: ReplayCoefficients, observe: Observer | None = None) -> Timeline:
        """Replay the tasks; times count from the end of the step's overhead. `observe` receives unfolded places."""
        tasks = self.tasks(coefficients)
        return replay_tasks(tasks if observe else self.fold(tasks), observe)

    def seconds(self, coefficients: ReplayCoefficients) -> float:
        """Seconds of the whole step."""
        return self.overhead_seconds(coefficients) + float(self.timeline(coefficients).end.max())

    @cached_property
    def _part_numbers(self) -> tuple[int, ...]:
        """The numbers of the parts in the step."""
        return tuple(np.unique(self.graph.part_of).tolist())

    @cached_property
    def _patterns(self) -> list[Pattern]:
        """The pattern of the passes, and the patterns of the step's parts."""
        return [self.catalogue.computing.pattern, *(self.catalogue.parts[part].pattern for part in self._part_numbers)]

    @cached_property
    def _pattern_of(self) -> list[int]:
        """The number of each task's pattern in `_patterns`."""
        of_parts = np.searchsorted(np.array(self._part_numbers), self.graph.part_of) + 1
        return [*[0] * self.graph.passes, *of_parts.tolist()]

    @cached_property
    def _rank(self) -> list[int]:
        """The rank of each task: tasks of shipments come before the passes, which continue in parallel."""
        first, count = self.graph.passes, len(self.graph.waits_for)
        return [*range(count, count + first), *range(first, count)]

    @cached_property
    def _urgency(self) -> list[int] | None:
        """The urgency of each task: passes continue in parallel; None without overlap with the next forward pass."""
        last = len(self.graph.waits_for) + 2 * len(self.graph.shipments)
        return [*[last] * self.graph.passes, *self.graph.urgency] if self.graph.overlaps else None

    @cached_property
    def _line(self) -> list[int]:
        return [*[-1] * self.graph.passes, *self.graph.part_of.tolist()]

    @cached_property
    def _alike(self) -> list[tuple[int, list[int], tuple[FloatArray, FloatArray, FloatArray]]]:
        """(part, tasks, (quantities, chained quantities, shards)) for every class of parts with equal loads; `part` is
        the first of the class."""
        graph, classes = self.graph, []
        first = np.array(self.catalogue.stands_for, dtype=np.intp)[graph.part_of]
        for part in np.unique(first).tolist():
            rows = np.flatnonzero(first == part)
            held = graph.quantities[rows], graph.chained[rows], graph.shards[rows, None]
            classes.append((part, (rows + graph.passes).tolist(), held))
        return classes

    def _computing(self, coefficients: ReplayCoefficients) -> list[list[float]]:
        """Seconds for which the passes keep each group of places busy, (passes, groups)."""
        forward, backward = self.passes.core_seconds(coefficients)
        if not self.passes.computes:
            # Every release waits for its own time, so a release that is late because no core was free delays no other
            # release. Gradients that are computed and then held are assumed to follow one another.
            forward, backward = forward + backward, 0.0
        core_seconds = self._spread(forward, backward, coefficients)
        core_seconds = np.tile(core_seconds / self.graph.apart, self.graph.apart)
        part = self.catalogue.computing
        replicas = np.zeros(part.pattern.groups)
        replicas[part.node_groups] = self.catalogue.replicas_a_core
        busy = np.outer(core_seconds, replicas)
        machines = self.resources.on_machines(busy[:, part.node_groups])
        busy[:, part.pattern.groups - machines.shape[1] :] = machines
        seconds: list[list[float]] = busy.tolist()
        return seconds

    def _delays(self, coefficients: ReplayCoefficients) -> FloatArray:
        """Seconds of the passes on a GPU or if paced, (passes,), else 0; and of the overhead if it is a task."""
        is_timed = self.catalogue.has_gpus or self.passes.paced is not None
        overhead = coefficients.step_overhead_seconds if self.graph.overlaps else 0.0
        delays = []
        of_replicas = [self.with_pass_seconds(pass_seconds).passes for pass_seconds in self.own_seconds]
        for passes in of_replicas or [self.passes] * self.graph.apart:
            forward, backward = passes.delay_seconds(coefficients) if is_timed else (0.0, 0.0)
            delay = self._spread(forward, backward, coefficients)
            delay[0] += overhead
            delays.append(delay)
        return np.concatenate(delays)

    def _spread(self, forward: float, backward: float, coefficients: ReplayCoefficients) -> FloatArray:
        """The seconds of a `forward` and a `backward` pass in each task of a replica's passes."""
        spread = backward * np.diff(self.progress(coefficients), prepend=0.0)
        spread[: len(self.graph.reads)] = forward * np.diff([*self.graph.reads, 1.0])
        return spread


@dataclass(frozen=True, eq=False)
class ReplayContext:
    """A model on a cluster with its replicas: the data that all strategies for them share."""

    model: ModelSpec
    """The model, with rows that are sent apart as variables of their own."""
    slices: Slices
    catalogue: Catalogue
    passes: PassCosts

    def step(self, strategy: Strategy, apart: bool = False) -> ReplayedStep:
        """The step of `strategy`; with `apart`, every replica has its own passes. Raises `SpecError` if the strategy
        does not fit.
        """
        try:
            read = self.passes.read if strategy.overlap_next_forward else None
            shipped = shipments(self.slices, split_strategy(strategy))
            graph = step_graph(self.catalogue, shipped, self.passes.ready, apart, read)
        except (KeyError, IndexError, ValueError) as error:
            check_strategy(split_strategy(strategy), self.model, self.catalogue.resources.cluster)
            raise SpecError(f"Strategy {strategy.digest} cannot be replayed: {error!r}; report it as a bug.") from error
        return ReplayedStep(graph, self.catalogue, self.passes)


def context_of(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> ReplayContext:
    """The context of all strategies with the same replicas and the same rows apart.

    Raises `SpecError` if the cluster lacks some replicas.
    """
    known = {str(device) for device in cluster.replica_devices}
    if not known.issuperset(strategy.replicas):
        check_strategy(strategy, model, cluster)
    replicas = strategy.replicas
    model = split_model(model, strategy.rows_apart) if strategy.rows_apart else model
    passes = PassCosts.of(model, cluster, replicas)
    tables: CostTables = cost_tables(model, cluster, replicas)
    return ReplayContext(model, tables.slices, _catalogue(cluster, replicas, model.slots), passes)


def step_of(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy, apart: bool = False) -> ReplayedStep:
    """The step of a strategy (`ReplayContext.step`). Raises `SpecError` if the strategy does not fit."""
    return context_of(model, cluster, strategy).step(strategy, apart)


@remember(32)
def _catalogue(cluster: ClusterSpec, replicas: tuple[str, ...], slots: int) -> Catalogue:
    """The catalogue of a cluster, cached for recent clusters, because thousands of strategies share one."""
    return Catalogue(ResourceColumns(cluster), replicas, slots)
