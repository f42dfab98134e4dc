"""Recipes: the parts of each channel on one cluster with its replicas, before the passes and after a gradient."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

import numpy as np
import numpy.typing as npt

from autosync.cost.capacity import ResourceColumns
from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.gather_counts import MOST_LISTED, work_of_gather
from autosync.cost.replay.parts import NodeFlow, Part, PartCost, PartMaker
from autosync.cost.replay.places import Pattern, Places, without_twins
from autosync.layout.channels import GATHERED, Channel, Exchanges
from autosync.layout.exchange import DeviceWork, Exchange, Stage, Transfer
from autosync.layout.gather import gather_among
from autosync.layout.topology import Topology

MANY = 32
"""From this number of replicas on, gathers are not listed message by message, and all replicas share their passes."""

MOST_COSTED = 8
"""The maximum number of coefficients for which costs of parts are cached."""

MOST_FOLDINGS = 256
"""The maximum number of sets of parts whose foldings are cached."""


@dataclass(frozen=True)
class Recipe:
    """The numbers of a channel's parts; each part waits for the previous one."""

    pull: tuple[int, ...] = ()
    """Parts before the forward pass."""

    push: tuple[int, ...] = ()
    """Parts that carry gradients once they are ready."""

    work: tuple[int, ...] = ()
    """Parts that add and update."""

    send: tuple[int, ...] = ()
    """Parts that carry the new values to the replicas."""


@final
@dataclass(eq=False)
class Catalogue:
    """All parts so far, numbered in order of first use, for one cluster with its replicas and an optimizer's slots."""

    resources: ResourceColumns
    replicas: tuple[str, ...]
    slots: int
    """The number of optimizer slots."""

    parts: list[Part] = field(default_factory=list)
    """Parts that differ only in their device have the same loads, so their cost is computed once: see `stands_for`."""

    stands_for: list[int] = field(default_factory=list)
    """The number of the first part with the same loads, for each part."""

    _recipes: dict[Channel, Recipe] = field(default_factory=dict)
    _first_of_each: dict[Channel, dict[int, int]] = field(default_factory=dict)
    _foldings: dict[tuple[int, ...], tuple[Sequence[Pattern], int]] = field(default_factory=dict)
    _costs: dict[ReplayCoefficients, list[PartCost]] = field(default_factory=dict)

    def recipe(self, channel: Channel) -> Recipe:
        """The recipe of `channel`. Raises `KeyError` if the channel is unknown or the cluster lacks its server."""
        if channel not in self._recipes:
            if channel[1] and channel[1] not in self.resources.server_column:
                raise KeyError(channel[1])
            self._recipes[channel] = self._make(channel)
        return self._recipes[channel]

    def first_of_each(self, channel: Channel) -> Mapping[int, int]:
        """The part with each replica's own messages in the first push of `channel`, by the replica's number. Empty for
        a push in rounds, in which replicas wait for each other.
        """
        if channel not in self._first_of_each:
            self._first_of_each[channel] = self._split(channel)
        return self._first_of_each[channel]

    def costs(self, coefficients: ReplayCoefficients) -> list[PartCost]:
        """The costs of all parts so far under `coefficients`; cached for recent coefficients."""
        if coefficients not in self._costs:
            if len(self._costs) >= MOST_COSTED:
                self._costs.clear()
            self._costs[coefficients] = []
        costs = self._costs[coefficients]
        for number in range(len(costs), len(self.parts)):
            like = self.stands_for[number]
            costs.append(costs[like] if like < number else self._maker.cost(self.parts[number], coefficients))
        return costs

    def fold(self, parts: tuple[int, ...]) -> tuple[Sequence[Pattern], int]:
        """The patterns of computing and of `parts` on the fewest places that distinguish them, and their number."""
        if parts not in self._foldings:
            if len(self._foldings) >= MOST_FOLDINGS:
                self._foldings.clear()
            patterns = [self.computing.pattern, *(self.parts[part].pattern for part in parts)]
            self._foldings[parts] = without_twins(patterns, self.resources.count)
        return self._foldings[parts]

    @cached_property
    def computing(self) -> Part:
        """A part without loads, whose pattern has the replicas' cores in groups."""
        return self._maker.of_work((), None)

    @cached_property
    def has_gpus(self) -> bool:
        """Whether replicas run on GPUs."""
        return any("/gpu:" in name for name in self.replicas)

    @cached_property
    def replicas_a_core(self) -> npt.NDArray[np.float64]:
        """Replicas per core of each node, (nodes,)."""
        return self._maker.replicas_a_core

    @property
    def places(self) -> Places:
        return self._maker.places

    @cached_property
    def _maker(self) -> PartMaker:
        return PartMaker(self.resources, self.replicas)

    @cached_property
    def _topology(self) -> Topology:
        return Topology(self.resources.cluster, self.replicas)

    @cached_property
    def _exchanges(self) -> Exchanges:
        return Exchanges(self._topology, self.slots)

    def _make(self, channel: Channel) -> Recipe:
        kind, server, local_copy = channel
        like = self._maker.places.alike.stands_for(server) if server else ""
        if like != server:
            return self._on_server(self.recipe((kind, like, local_copy)), like, server)
        if channel[0] in GATHERED and len(self.replicas) >= MANY:
            return self._to_everyone(channel)
        exchange = self._exchanges.of(channel)
        sums = self._sums(channel, exchange)
        push = self._number([self._maker.of_stage(stage, sums) for stage in exchange.push])
        pull = self._number([self._maker.of_stage(stage) for stage in exchange.pull])
        work = self._number(self._work(channel, exchange))
        if channel[0] == "sparse_server":
            return Recipe(pull=pull, push=push, work=work)
        return Recipe(push=push, work=work, send=pull)

    @staticmethod
    def _is_on_the_way(channel: Channel, exchange: Exchange, work: DeviceWork) -> bool:
        return bool(exchange.push) and work.device != exchange.server and channel[0] not in GATHERED

    def _sums(self, channel: Channel, exchange: Exchange, parts: int = 1) -> list[DeviceWork]:
        """The additions while the messages of one of `parts` parts of a stage arrive. A server is excluded, because it
        needs all messages first.
        """
        share = len(exchange.push) * parts
        on_the_way = [work for work in exchange.work if work.added and self._is_on_the_way(channel, exchange, work)]
        return [DeviceWork(work.device, work.added / share) for work in on_the_way]

    def _split(self, channel: Channel) -> dict[int, int]:
        exchange = self._exchanges.of(channel)
        if not exchange.push or exchange.push[0].rounds > 1:
            return {}
        first = exchange.push[0].transfers
        of_replicas = {
            number: [transfer for transfer in first if transfer.source == replica]
            for number, replica in enumerate(self.replicas)
        }
        senders = {number: sent for number, sent in of_replicas.items() if sent}
        if sum(map(len, senders.values())) < len(first):
            return {}
        sums = self._sums(channel, exchange, len(senders))
        parts = [self._maker.of_stage(Stage(tuple(sent)), sums) for sent in senders.values()]
        return dict(zip(senders, self._number(parts), strict=True))

    def _work(self, channel: Channel, exchange: Exchange) -> list[Part]:
        """The part of the work that is not done while messages arrive."""
        left = []
        for work in exchange.work:
            added = 0.0 if self._is_on_the_way(channel, exchange, work) else work.added
            if added or work.updated_touched or work.updated_held:
                left.append(DeviceWork(work.device, added, work.updated_touched, work.updated_held))
        return [self._maker.of_work(left, exchange.server)] if left else []

    def _to_everyone(self, channel: Channel) -> Recipe:
        """The recipe of a gather by pairs of nodes, because a thousand replicas send a million messages."""
        kind, maker = channel[0], self._maker
        direct = not gather_among(self._topology).levels
        if direct and len(self.resources.cluster.nodes) > MOST_LISTED:
            push = [maker.of_everyone(GATHERED[kind])]
        else:
            push = [maker.of_flows(flows) for flows in self._flows(GATHERED[kind])]
        numbers, work = self._number(push), work_of_gather(self._topology, self.slots, channel)
        return Recipe(push=numbers, work=self._number([maker.of_work(work, None)]))

    def _flows(self, transfer: Transfer) -> Iterator[Counter[NodeFlow]]:
        """The flows of each stage of a gather with messages like `transfer`."""
        places = [(self.resources.node_of[replica], "/gpu:" in replica) for replica in self.replicas]
        for stage in gather_among(self._topology).part_counts(places):
            flows: Counter[NodeFlow] = Counter()
            for ((source, on_gpu), (target, to_gpu)), parts in stage.items():
                within = source == target and on_gpu and to_gpu
                flows[self._maker.flow_like(transfer, source, target, not within)] += parts
            yield flows

    def _on_server(self, recipe: Recipe, server: str, twin: str) -> Recipe:
        """The recipe of the server `twin`, given the recipe of an interchangeable `server`."""

        def on_twin(parts: tuple[int, ...]) -> tuple[int, ...]:
            of_twin = [self._maker.on_device(self.parts[part], server, twin) for part in parts]
            return self._number(of_twin, [self.stands_for[part] for part in parts])

        return Recipe(*map(on_twin, (recipe.pull, recipe.push, recipe.work, recipe.send)))

    def _number(self, parts: Sequence[Part], like: Sequence[int] | None = None) -> tuple[int, ...]:
        """Append `parts` to the catalogue; return their numbers."""
        numbers = range(len(self.parts), len(self.parts) + len(parts))
        self.parts += parts
        self.stands_for += like or numbers
        return tuple(numbers)
