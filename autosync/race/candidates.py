"""Who takes part: the plain strategy, each system of the menu, and combinations of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

from autosync.baselines import BASELINES
from autosync.cost import Replay
from autosync.errors import SpecError
from autosync.runs.race_folder import COMBINED
from autosync.space import Circumstances, Offer
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
"""Of how many offers at most a combination is made."""


@dataclass(frozen=True)
class Candidate:
    """A strategy that is trained with; `parts` are the offers of which its discipline is made, none for a plain one."""

    name: str
    strategy: Strategy
    parts: tuple[Offer, ...] = ()

    @property
    def source(self) -> str:
        return "; ".join(each.source for each in self.parts)


@dataclass(frozen=True)
class Setting:
    """What is trained where, and by which strategy as long as a discipline asks for no other."""

    model: ModelSpec
    cluster: ClusterSpec
    base: Strategy

    @cached_property
    def circumstances(self) -> Circumstances:
        """What a menu is to know."""
        nodes = [self.cluster.node(replica.rpartition("/")[0]) for replica in self.base.replicas]
        streams = [node.pace.stream for node in nodes if node.pace is not None and node.pace.stream is not None]
        return Circumstances(len(nodes), self._probed(), tuple(streams))

    def candidates(self, menu: Sequence[Offer]) -> tuple[Candidate, ...]:
        """The plain one, and those of the menu that fit."""
        named = (self.made((offer,)) for offer in menu)
        return Candidate(PLAIN_NAME, self.base), *(each for each in named if each is not None)

    def combinations(self, menu: Sequence[Offer], most: int) -> Iterator[Candidate]:
        """Those of 2 to `most` offers that go together."""
        for count in range(2, most + 1):
            for offers in itertools.combinations(menu, count):
                if (made := self.made(offers)) is not None:
                    yield made

    def made(self, offers: Sequence[Offer]) -> Candidate | None:
        """The candidate with the disciplines of all `offers`; None if these do not go together, or do not fit."""
        try:
            discipline = _together([each.discipline for each in offers])
        except SpecError:
            return None
        workers = [each.workers for each in offers if each.workers is not None]
        if discipline is None or len(workers) > 1:
            return None
        kept = next((each.keeps for each in offers if each.keeps is not None), None)
        strategy = self.base
        if (discipline.rhythm or kept is not None or workers) and not _all_reduced(strategy):
            strategy = BASELINES["all_reduce_25mb"](self.model, self.cluster)
        if workers:
            strategy = replace(strategy, replicas=self._quickest(strategy, workers[0]))
        if kept is not None:
            strategy = compressed(strategy, self.model, TopK(kept))
        strategy = replace(strategy, discipline=discipline)
        if next(strategy_faults(strategy, self.model, self.cluster), None):
            return None
        return Candidate(COMBINED.join(each.name for each in offers), strategy, tuple(offers))

    def _quickest(self, strategy: Strategy, workers: int) -> tuple[str, ...]:
        """So many of the replicas: without each of the others a step is predicted to be shortest."""
        replicas = strategy.replicas
        without = [replace(strategy, replicas=tuple(other for other in replicas if other != each)) for each in replicas]
        seconds = Replay().predict(self.model, self.cluster, without)
        order = sorted(range(len(replicas)), key=lambda number: (-seconds[number], number))
        return tuple(replicas[number] for number in sorted(order[:workers]))

    def _probed(self) -> Probed:
        """What a message and a whole dense gradient take between the two replicas for which that is most."""
        dense = sum(each.gradient_bytes for each in self.model.variables if not each.sparse)
        nodes = dict.fromkeys(replica.rpartition("/")[0] for replica in self.base.replicas)
        routes = [self.cluster.route(one, other) for one, other in itertools.permutations(nodes, 2)]
        return Probed(
            max((sum(link.latency_seconds for link in route) for route in routes), default=0.0),
            max((dense / link.bytes_per_second for route in routes for link in route), default=0.0),
        )


def best_baseline(model: ModelSpec, cluster: ClusterSpec) -> tuple[str, Strategy]:
    """The baseline whose step is the shortest by the replay, and its name."""
    fitting = {name: build(model, cluster) for name, build in BASELINES.items()}
    fitting = {
        name: each for name, each in fitting.items() if next(strategy_faults(each, model, cluster), None) is None
    }
    seconds = Replay().predict(model, cluster, list(fitting.values()))
    name = min(zip(seconds, fitting, strict=True))[1]
    return name, fitting[name]


def _together(disciplines: Sequence[Discipline]) -> Discipline | None:
    """The discipline that does what all do; None where two say something about the same. Raises `SpecError`."""
    said: dict[str, object] = {}
    for each in disciplines:
        own = {field.name: getattr(each, field.name) for field in fields(each)}
        own = {name: value for name, value in own.items() if value is not None}
        if said.keys() & own.keys():
            return None
        said |= own
    return replace(PLAIN, **said)  # type: ignore[arg-type]  # each is of its own field


def _all_reduced(strategy: Strategy) -> bool:
    return all(isinstance(shard, AllReduce) and shard.compressor is None for _, _, shard in strategy.shards())


def compressed(strategy: Strategy, model: ModelSpec, compressor: TopK, algorithm: str = "ring") -> Strategy:
    """`strategy`, whose dense variables are all all-reduced, with each of them compressed and sent by `algorithm`.

    Collectives have messages of one length, and cannot be told at run time what is kept; a ring can.
    """
    sparse = {each.name for each in model.variables if each.sparse}
    variables = []
    for each in strategy.variables:
        shards = each.shards
        if each.variable not in sparse:
            shards = tuple(
                replace(shard, compressor=compressor, algorithm=algorithm) if isinstance(shard, AllReduce) else shard
                for shard in shards
            )
        variables.append(replace(each, shards=shards))
    return replace(strategy, variables=tuple(variables))
