"""One strategy's step, laid out once and then replayed under any coefficients."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from autosync.cost.capacity import PassCosts, Resources, paced_passes
from autosync.cost.closed_form.tables import CostTables, cost_tables
from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.remembered import remembered
from autosync.cost.replay.graph import StepGraph, step_graph
from autosync.cost.replay.queues import Observer, Tasks, Timeline, folded, replayed
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

    @property
    def resources(self) -> Resources:
        return self.catalogue.resources

    def taking(self, pass_seconds: float) -> Step:
        """The same step with paced passes that take so long, whatever their pace says."""
        assert self.passes.paced is not None, "only paced passes take what they are told"
        return replace(self, passes=replace(self.passes, paced=replace(self.passes.paced, seconds=pass_seconds)))

    def tasks(self, coefficients: ReplayCoefficients) -> Tasks:
        graph, first = self.graph, self.graph.passes
        busy = np.zeros((first + len(graph.part_of), self.resources.count))
        chain = np.zeros(len(busy))
        busy[:first], chain[:first] = self._computing(coefficients)
        costed = self.catalogue.costed(coefficients)
        for part, rows in graph.tasks_of_part:
            busy[first + rows] = graph.quantities[rows] @ costed[part].busy
            chain[first + rows] = graph.chained[rows] @ costed[part].chain + self.catalogue.parts[part].latency_seconds
        of_shard = np.zeros(self.resources.count)
        of_shard[self.resources.nodes] = self.catalogue.replicas_a_core * coefficients.core_seconds_per_shard
        self.resources.add_shared(of_shard)
        busy[first:] += np.outer(graph.shards, of_shard)
        # What is ready goes first; the passes go on beside it.
        rank = [*range(len(busy), len(busy) + first), *range(first, len(busy))]
        line = [*[-1] * first, *graph.part_of.tolist()]
        return Tasks(busy, chain, rank, line, graph.successors, graph.waits_for)

    def timeline(self, coefficients: ReplayCoefficients, observe: Observer | None = None) -> Timeline:
        """The replay of the tasks, from when the step's overhead is over."""
        return timeline_of(self.tasks(coefficients), observe)

    def seconds(self, coefficients: ReplayCoefficients) -> float:
        """Seconds of the whole step."""
        return coefficients.step_overhead_seconds + float(self.timeline(coefficients).end.max())

    def _computing(self, coefficients: ReplayCoefficients) -> tuple[FloatArray, FloatArray]:
        """What the passes keep busy, and how long they take on a GPU or paced: (passes, resources), (passes,)."""
        resources = self.resources
        shares = np.diff(1 - coefficients.overlap * (1 - self.graph.boundaries), prepend=0.0)
        shares = np.concatenate([[0.0], shares])
        forward, backward = self.passes.core_seconds(coefficients)
        core_seconds = backward * shares
        core_seconds[0] = forward
        busy = np.zeros((len(shares), resources.count))
        busy[:, resources.nodes] = np.outer(core_seconds, self.catalogue.replicas_a_core)
        resources.add_shared(busy)
        if not self.catalogue.has_gpus and self.passes.paced is None:
            return busy, np.zeros(len(shares))
        forward, backward = self.passes.delay_seconds(coefficients)
        delay = backward * shares
        delay[0] = forward
        return busy, delay


def timeline_of(tasks: Tasks, observe: Observer | None = None) -> Timeline:
    """The replay of a step's tasks."""
    return replayed(tasks if observe else folded(tasks), observe)


@dataclass(frozen=True, eq=False)
class Setting:
    """A model on a cluster with its replicas: what all strategies for them share."""

    model: ModelSpec
    slices: Slices
    catalogue: Catalogue
    passes: PassCosts

    def step(self, strategy: Strategy) -> Step:
        """The step of `strategy`. Raises `SpecError` when the strategy does not fit."""
        try:
            graph = step_graph(self.catalogue, shipments(self.slices, strategy), self.passes.ready)
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
    passes = PassCosts(model, paced_passes(model, cluster, replicas))
    tables: CostTables = cost_tables(model, cluster, replicas)
    return Setting(model, tables.slices, _catalogue(cluster, replicas, model.slots), passes)


def step_of(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> Step:
    """The step of `strategy`. Raises `SpecError` when the strategy does not fit the model and the cluster."""
    return setting_of(model, cluster, strategy).step(strategy)


@remembered(32)
def _catalogue(cluster: ClusterSpec, replicas: tuple[str, ...], slots: int) -> Catalogue:
    """The catalogue of a cluster, kept for the clusters met last, since thousands of strategies share one."""
    return Catalogue(Resources(cluster), replicas, slots)
