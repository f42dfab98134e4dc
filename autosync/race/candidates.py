"""The candidates of a race: the plain strategy, each system of the menu, and combinations of systems."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

from autosync.baselines import BASELINES
from autosync.cost import Replay
from autosync.errors import SpecError
from autosync.runs.race_folder import COMBINED
from autosync.space import Circumstances, OfferedDiscipline
from autosync.spec import (
    PLAIN,
    AllReduce,
    ClusterSpec,
    Discipline,
    ModelSpec,
    Probed,
    Strategy,
    TopK,
    strategy_faults,
)

PLAIN_NAME = "plain"

PAIRS = 2
"""The largest number of offers that are combined."""


@dataclass(frozen=True)
class Candidate:
    """A strategy to train with. `parts` are the offers that its discipline combines; a plain strategy has none."""

    name: str
    strategy: Strategy
    parts: tuple[OfferedDiscipline, ...] = ()

    @property
    def source(self) -> str:
        return "; ".join(part.source for part in self.parts)


@dataclass(frozen=True)
class RaceSetting:
    """The model, the cluster, and the base strategy, which candidates keep unless a discipline needs another one."""

    model: ModelSpec
    cluster: ClusterSpec
    base: Strategy

    @cached_property
    def circumstances(self) -> Circumstances:
        """The facts about the cluster that a menu depends on."""
        nodes = [self.cluster.node(replica.rpartition("/")[0]) for replica in self.base.replicas]
        streams = [node.pace.stream for node in nodes if node.pace is not None and node.pace.stream is not None]
        return Circumstances(len(nodes), self._worst_route(), tuple(streams))

    def candidates(self, menu: Sequence[OfferedDiscipline]) -> tuple[Candidate, ...]:
        """Return the plain strategy, and every offer of the menu that fits the model and the cluster."""
        named = (self.combine((offer,)) for offer in menu)
        return Candidate(PLAIN_NAME, self.base), *(candidate for candidate in named if candidate is not None)

    def combinations(self, menu: Sequence[OfferedDiscipline], most: int) -> Iterator[Candidate]:
        """Yield the compatible combinations of 2 to `most` offers."""
        for count in range(2, most + 1):
            for offers in itertools.combinations(menu, count):
                if (candidate := self.combine(offers)) is not None:
                    yield candidate

    def combine(self, offers: Sequence[OfferedDiscipline]) -> Candidate | None:
        """Return the candidate with the disciplines of all `offers`; None if they are incompatible or do not fit."""
        try:
            discipline = _merge_disciplines([offer.discipline for offer in offers])
        except SpecError:
            return None
        workers = [offer.workers for offer in offers if offer.workers is not None]
        if discipline is None or len(workers) > 1:
            return None
        fraction = next((offer.keeps for offer in offers if offer.keeps is not None), None)
        strategy = self.base
        if (discipline.rhythm or fraction is not None or workers) and not _is_all_reduce(strategy):
            strategy = BASELINES["all_reduce_25mb"](self.model, self.cluster)
        if workers:
            strategy = replace(strategy, replicas=self._fastest_replicas(strategy, workers[0]))
        if fraction is not None:
            strategy = compress_dense(strategy, self.model, TopK(fraction))
        strategy = replace(strategy, discipline=discipline)
        if next(strategy_faults(strategy, self.model, self.cluster), None):
            return None
        return Candidate(COMBINED.join(offer.name for offer in offers), strategy, tuple(offers))

    def _fastest_replicas(self, strategy: Strategy, workers: int) -> tuple[str, ...]:
        """Return `workers` replicas. A replica is left out if the predicted step is shortest without it."""
        replicas = strategy.replicas
        without = [
            replace(strategy, replicas=tuple(replica for replica in replicas if replica != left_out))
            for left_out in replicas
        ]
        seconds = Replay().predict(self.model, self.cluster, without)
        order = sorted(range(len(replicas)), key=lambda number: (-seconds[number], number))
        return tuple(replicas[number] for number in sorted(order[:workers]))

    def _worst_route(self) -> Probed:
        """The longest time of a message and of a whole dense gradient between any two nodes with replicas."""
        dense = sum(variable.gradient_bytes for variable in self.model.variables if not variable.sparse)
        nodes = dict.fromkeys(replica.rpartition("/")[0] for replica in self.base.replicas)
        routes = [self.cluster.route(source, target) for source, target in itertools.permutations(nodes, 2)]
        return Probed(
            max((sum(link.latency_seconds for link in route) for route in routes), default=0.0),
            max((dense / link.bytes_per_second for route in routes for link in route), default=0.0),
        )


def best_baseline(model: ModelSpec, cluster: ClusterSpec) -> tuple[str, Strategy]:
    """Return the name of the baseline with the shortest step predicted by the replay, and the baseline."""
    fitting = {name: build(model, cluster) for name, build in BASELINES.items()}
    fitting = {
        name: strategy
        for name, strategy in fitting.items()
        if next(strategy_faults(strategy, model, cluster), None) is None
    }
    seconds = Replay().predict(model, cluster, list(fitting.values()))
    name = min(zip(seconds, fitting, strict=True))[1]
    return name, fitting[name]


def _merge_disciplines(disciplines: Sequence[Discipline]) -> Discipline | None:
    """Return one discipline with the settings of all; None if two of them set the same field. Raises `SpecError`."""
    merged: dict[str, object] = {}
    for discipline in disciplines:
        settings = {field.name: getattr(discipline, field.name) for field in fields(discipline)}
        settings = {name: value for name, value in settings.items() if value is not None}
        if merged.keys() & settings.keys():
            return None
        merged |= settings
    return replace(PLAIN, **merged)  # type: ignore[arg-type]  # a value has the type of its field


def _is_all_reduce(strategy: Strategy) -> bool:
    return all(isinstance(shard, AllReduce) and shard.compressor is None for _, _, shard in strategy.shards())


def compress_dense(strategy: Strategy, model: ModelSpec, compressor: TopK, algorithm: str = "ring") -> Strategy:
    """Return `strategy` with every dense variable compressed, and sent by `algorithm`. All of them must be all-reduced.

    The framework's collectives need messages of one fixed length, so they cannot change the kept fraction at run time;
    a ring can.
    """
    sparse = {variable.name for variable in model.variables if variable.sparse}
    variables = []
    for variable in strategy.variables:
        shards = variable.shards
        if variable.variable not in sparse:
            shards = tuple(
                replace(shard, compressor=compressor, algorithm=algorithm) if isinstance(shard, AllReduce) else shard
                for shard in shards
            )
        variables.append(replace(variable, shards=shards))
    return replace(strategy, variables=tuple(variables))
