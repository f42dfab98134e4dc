"""One strategy's step, laid out once and then replayed under any coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autosync.cost.capacity import PassCosts, Resources
from autosync.cost.closed_form.tables import CostTables, cost_tables
from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.remembered import remembered
from autosync.cost.replay.graph import StepGraph, step_graph
from autosync.cost.replay.places import Pattern
from autosync.cost.replay.queues import Observer, Tasks, Timeline, replayed
from autosync.cost.replay.recipes import Catalogue
from autosync.cost.replay.shipments import shipments
from autosync.errors import SpecError
from autosync.layout.shards import Slices
from autosync.spec import ClusterSpec, ModelSpec, Strategy, check_strategy

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Step:
    """A strategy's step on a cluster: its graph, and what is needed to put seconds to it."""

    graph: StepGraph
    catalogue: Catalogue
    passes: PassCosts
    own_seconds: tuple[float, ...] = ()
    """What the passes of each replica take, in a graph where they are apart; empty where all are alike."""

    @property
    def resources(self) -> Resources:
        return self.catalogue.resources

    def taking(self, pass_seconds: float) -> Step:
        """The same step with paced passes that take so long, whatever their pace says."""
        assert self.passes.paced is not None, "only paced passes take what they are told"
        return replace(self, passes=replace(self.passes, paced=replace(self.passes.paced, seconds=pass_seconds)))

    def taking_each(self, pass_seconds: Sequence[float]) -> Step:
        """The same step, in whose graph passes are apart, with paced passes that take so long, one a replica."""
        assert len(pass_seconds) == self.graph.apart
        return replace(self, own_seconds=tuple(pass_seconds))

    def tasks(self, coefficients: ReplayCoefficients) -> Tasks:
        graph, first, catalogue = self.graph, self.graph.passes, self.catalogue
        seconds = [*self._computing(coefficients), *([[]] * len(graph.part_of))]
        chain = np.zeros(len(seconds))
        chain[:first] = self._delays(coefficients)
        costed = catalogue.costed(self.passes.sending(coefficients))
        for part, rows, (quantities, chained, shards) in self._alike:
            busy, of_chain, of_shard = costed[part]
            found = (quantities @ busy + shards * of_shard).tolist()
            for row, each in zip(rows, found, strict=True):
                seconds[row] = each
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
        )

    def folded(self, tasks: Tasks) -> Tasks:
        """The tasks of this step on fewer places, with the same times."""
        patterns, places = self.catalogue.folded(self._used)
        return replace(tasks, patterns=patterns, places=places)

    def progress(self, coefficients: ReplayCoefficients) -> FloatArray:
        """The share of the backward pass that is over where each segment of it ends, behind the forward pass's 0,
        (passes,).
        """
        over = 1 - self.passes.overlap(coefficients) * (1 - self.graph.boundaries)
        return np.concatenate([[0.0], over])

    def timeline(self, coefficients: ReplayCoefficients, observe: Observer | None = None) -> Timeline:
        """The replay of the tasks, from when the step's overhead is over; `observe` is told of places."""
        tasks = self.tasks(coefficients)
        return replayed(tasks if observe else self.folded(tasks), observe)

    def seconds(self, coefficients: ReplayCoefficients) -> float:
        """Seconds of the whole step."""
        return coefficients.step_overhead_seconds + float(self.timeline(coefficients).end.max())

    @cached_property
    def _used(self) -> tuple[int, ...]:
        """The numbers of the parts that there are in the step."""
        return tuple(np.unique(self.graph.part_of).tolist())

    @cached_property
    def _patterns(self) -> list[Pattern]:
        """The pattern of the passes, and those of the parts used."""
        return [self.catalogue.computing.pattern, *(self.catalogue.parts[part].pattern for part in self._used)]

    @cached_property
    def _pattern_of(self) -> list[int]:
        """The number of each task's pattern among these."""
        found = np.searchsorted(np.array(self._used), self.graph.part_of) + 1
        return [*[0] * self.graph.passes, *found.tolist()]

    @cached_property
    def _rank(self) -> list[int]:
        """What is ready goes first; the passes go on beside it."""
        first, count = self.graph.passes, len(self.graph.waits_for)
        return [*range(count, count + first), *range(first, count)]

    @cached_property
    def _line(self) -> list[int]:
        return [*[-1] * self.graph.passes, *self.graph.part_of.tolist()]

    @cached_property
    def _alike(self) -> list[tuple[int, list[int], tuple[FloatArray, FloatArray, FloatArray]]]:
        """The first of the parts that are like each other, the tasks of all of them, and their quantities, chained
        quantities and shards."""
        graph, found = self.graph, []
        first = np.array(self.catalogue.stands_for, dtype=np.intp)[graph.part_of]
        for part in np.unique(first).tolist():
            rows = np.flatnonzero(first == part)
            held = graph.quantities[rows], graph.chained[rows], graph.shards[rows, None]
            found.append((part, (rows + graph.passes).tolist(), held))
        return found

    def _computing(self, coefficients: ReplayCoefficients) -> list[list[float]]:
        """What the passes keep each group of places busy, (passes, groups)."""
        forward, backward = self.passes.core_seconds(coefficients)
        if not self.passes.computed:
            # Each release waits for its own time, so one that is late for want of a core makes no other late. Gradients
            # that are computed to be held are taken to follow one another.
            forward, backward = forward + backward, 0.0
        core_seconds = backward * self._shares(coefficients)
        core_seconds[0] = forward
        core_seconds = np.tile(core_seconds / self.graph.apart, self.graph.apart)
        part = self.catalogue.computing
        replicas = np.zeros(part.pattern.groups)
        replicas[part.node_groups] = self.catalogue.replicas_a_core
        busy = np.outer(core_seconds, replicas)
        machines = self.resources.on_machines(busy[:, part.node_groups])
        busy[:, part.pattern.groups - machines.shape[1] :] = machines
        found: list[list[float]] = busy.tolist()
        return found

    def _delays(self, coefficients: ReplayCoefficients) -> FloatArray:
        """How long the passes take on a GPU or paced, (passes,)."""
        if not self.catalogue.has_gpus and self.passes.paced is None:
            return np.zeros(self.graph.passes)
        shares, delays = self._shares(coefficients), []
        for passes in [self.taking(each).passes for each in self.own_seconds] or [self.passes] * self.graph.apart:
            forward, backward = passes.delay_seconds(coefficients)
            delay = backward * shares
            delay[0] = forward
            delays.append(delay)
        return np.concatenate(delays)

    def _shares(self, coefficients: ReplayCoefficients) -> FloatArray:
        """The shares of the backward pass that its segments are, behind the forward pass's 0, (passes,)."""
        return np.diff(self.progress(coefficients), prepend=0.0)


@dataclass(frozen=True, eq=False)
class Setting:
    """A model on a cluster with its replicas: what all strategies for them share."""

    model: ModelSpec
    slices: Slices
    catalogue: Catalogue
    passes: PassCosts

    def step(self, strategy: Strategy, apart: bool = False) -> Step:
        """The step of `strategy`, with passes of each replica's own if they are `apart`. Raises `SpecError` when the
        strategy does not fit.
        """
        try:
            graph = step_graph(self.catalogue, shipments(self.slices, strategy), self.passes.ready, apart)
        except (KeyError, IndexError, ValueError) as error:
            check_strategy(strategy, self.model, self.catalogue.resources.cluster)
            raise SpecError(f"Strategy {strategy.digest} cannot be replayed: {error!r}; report it as a bug.") from error
        return Step(graph, self.catalogue, self.passes)


def setting_of(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> Setting:
    """The setting of all strategies with the same replicas. Raises `SpecError` when the cluster lacks some of them."""
    known = {str(device) for device in cluster.replica_devices}
    if not known.issuperset(strategy.replicas):
        check_strategy(strategy, model, cluster)
    replicas = strategy.replicas
    passes = PassCosts.of(model, cluster, replicas)
    tables: CostTables = cost_tables(model, cluster, replicas)
    return Setting(model, tables.slices, _catalogue(cluster, replicas, model.slots), passes)


def step_of(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy, apart: bool = False) -> Step:
    """As of `Setting.step`. Raises `SpecError` when the strategy does not fit the model and the cluster."""
    return setting_of(model, cluster, strategy).step(strategy, apart)


@remembered(32)
def _catalogue(cluster: ClusterSpec, replicas: tuple[str, ...], slots: int) -> Catalogue:
    """The catalogue of a cluster, kept for the clusters met last, since thousands of strategies share one."""
    return Catalogue(Resources(cluster), replicas, slots)
