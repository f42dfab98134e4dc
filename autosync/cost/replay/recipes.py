"""How each channel is gone through on one cluster with its replicas: parts before the passes, and after a gradient."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

import numpy as np
import numpy.typing as npt

from autosync.cost.capacity import Resources
from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.everyone import MOST_LISTED, work_of_gather
from autosync.cost.replay.parts import Costed, Flow, Part, PartMaker
from autosync.cost.replay.places import Pattern, Places, without_twins
from autosync.layout.channels import GATHERED, Channel, Exchanges
from autosync.layout.exchange import Exchange, Stage, Transfer, Work
from autosync.layout.gather import gather_among
from autosync.layout.topology import Topology

MANY = 32
"""The fewest replicas for which gathers are not listed message by message, nor passes told apart."""

MOST_COSTED = 8
"""The most coefficients for which parts are kept at a time."""

MOST_FOLDINGS = 256
"""The most sets of parts whose foldings are kept at a time."""


@dataclass(frozen=True)
class Recipe:
    """Numbers of parts, each waiting for the one before it.

    `pull` comes before the forward pass, `push` carries gradients once they are ready, `work` adds and updates, and
    `send` takes the new values to the replicas.
    """

    pull: tuple[int, ...] = ()
    push: tuple[int, ...] = ()
    work: tuple[int, ...] = ()
    send: tuple[int, ...] = ()


@final
@dataclass(eq=False)
class Catalogue:
    """The parts met so far on one cluster with its replicas and an optimizer of `slots`, numbered as they are met."""

    resources: Resources
    replicas: tuple[str, ...]
    slots: int
    parts: list[Part] = field(default_factory=list)
    """Parts alike but for the device that they are of have the same loads, and are costed once: see `stands_for`."""
    stands_for: list[int] = field(default_factory=list)
    """The first of the parts that are like each."""
    _recipes: dict[Channel, Recipe] = field(default_factory=dict)
    _first_of_each: dict[Channel, dict[int, int]] = field(default_factory=dict)
    _folded: dict[tuple[int, ...], tuple[Sequence[Pattern], int]] = field(default_factory=dict)
    _costed: dict[ReplayCoefficients, list[Costed]] = field(default_factory=dict)

    def recipe(self, channel: Channel) -> Recipe:
        """The recipe of `channel`. Raises `KeyError` for a channel there is not, or a server that the cluster lacks."""
        if channel not in self._recipes:
            if channel[1] and channel[1] not in self.resources.server_column:
                raise KeyError(channel[1])
            self._recipes[channel] = self._made(channel)
        return self._recipes[channel]

    def first_of_each(self, channel: Channel) -> Mapping[int, int]:
        """The part that each replica, by its number, has in the first push of `channel`, where it sends only what it
        has itself; none for a push in rounds, in which all wait for each other.
        """
        if channel not in self._first_of_each:
            self._first_of_each[channel] = self._split(channel)
        return self._first_of_each[channel]

    def costed(self, coefficients: ReplayCoefficients) -> list[Costed]:
        """Every part met so far under `coefficients`; kept for those asked for last."""
        if coefficients not in self._costed:
            if len(self._costed) >= MOST_COSTED:
                self._costed.clear()
            self._costed[coefficients] = []
        found = self._costed[coefficients]
        for number in range(len(found), len(self.parts)):
            like = self.stands_for[number]
            found.append(found[like] if like < number else self._maker.costed(self.parts[number], coefficients))
        return found

    def folded(self, parts: tuple[int, ...]) -> tuple[Sequence[Pattern], int]:
        """The patterns of computing and of these parts, on as few places as they are told apart by, and how many."""
        if parts not in self._folded:
            if len(self._folded) >= MOST_FOLDINGS:
                self._folded.clear()
            patterns = [self.computing.pattern, *(self.parts[part].pattern for part in parts)]
            self._folded[parts] = without_twins(patterns, self.resources.count)
        return self._folded[parts]

    @cached_property
    def computing(self) -> Part:
        """The part in which replicas' cores are in groups, and nothing is loaded."""
        return self._maker.of_work((), None)

    @cached_property
    def has_gpus(self) -> bool:
        """Whether replicas run on GPUs."""
        return any("/gpu:" in name for name in self.replicas)

    @cached_property
    def replicas_a_core(self) -> npt.NDArray[np.float64]:
        """Replicas on each node's cores, per core, (nodes,)."""
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

    def _made(self, channel: Channel) -> Recipe:
        what, server, local_copy = channel
        like = self._maker.places.alike.stands_for(server) if server else ""
        if like != server:
            return self._of_other(self.recipe((what, like, local_copy)), like, server)
        if channel[0] in GATHERED and len(self.replicas) >= MANY:
            return self._to_everyone(channel)
        exchange = self._exchanges.of(channel)
        sums = self._sums(channel, exchange)
        push = self._numbered([self._maker.of_stage(stage, sums) for stage in exchange.push])
        pull = self._numbered([self._maker.of_stage(stage) for stage in exchange.pull])
        work = self._numbered(self._work(channel, exchange))
        if channel[0] == "sparse_server":
            return Recipe(pull=pull, push=push, work=work)
        return Recipe(push=push, work=work, send=pull)

    @staticmethod
    def _is_on_the_way(channel: Channel, exchange: Exchange, work: Work) -> bool:
        return bool(exchange.push) and work.device != exchange.server and channel[0] not in GATHERED

    def _sums(self, channel: Channel, exchange: Exchange, parts: int = 1) -> list[Work]:
        """What is added while the messages of one of `parts` of a stage come in, as is done but on a server that needs
        all of them first.
        """
        share = len(exchange.push) * parts
        on_the_way = [each for each in exchange.work if each.added and self._is_on_the_way(channel, exchange, each)]
        return [Work(each.device, each.added / share) for each in on_the_way]

    def _split(self, channel: Channel) -> dict[int, int]:
        exchange = self._exchanges.of(channel)
        if not exchange.push or exchange.push[0].rounds > 1:
            return {}
        first = exchange.push[0].transfers
        of_each = {
            number: [each for each in first if each.source == replica] for number, replica in enumerate(self.replicas)
        }
        senders = {number: sent for number, sent in of_each.items() if sent}
        if sum(map(len, senders.values())) < len(first):
            return {}
        sums = self._sums(channel, exchange, len(senders))
        parts = [self._maker.of_stage(Stage(tuple(sent)), sums) for sent in senders.values()]
        return dict(zip(senders, self._numbered(parts), strict=True))

    def _work(self, channel: Channel, exchange: Exchange) -> list[Part]:
        """What is left of the work when sums made on the way are taken out of it."""
        left = []
        for each in exchange.work:
            added = 0.0 if self._is_on_the_way(channel, exchange, each) else each.added
            if added or each.updated_touched or each.updated_held:
                left.append(Work(each.device, added, each.updated_touched, each.updated_held))
        return [self._maker.of_work(left, exchange.server)] if left else []

    def _to_everyone(self, channel: Channel) -> Recipe:
        """The recipe of a gather by pairs of nodes: a thousand replicas send a million messages."""
        what, maker = channel[0], self._maker
        straight = not gather_among(self._topology).levels
        if straight and len(self.resources.cluster.nodes) > MOST_LISTED:
            push = [maker.of_everyone(GATHERED[what])]
        else:
            push = [maker.of_flows(each) for each in self._flows(GATHERED[what])]
        numbers, work = self._numbered(push), work_of_gather(self._topology, self.slots, channel)
        return Recipe(push=numbers, work=self._numbered([maker.of_work(work, None)]))

    def _flows(self, transfer: Transfer) -> Iterator[Counter[Flow]]:
        """The flows of each stage of a gather, of messages like `transfer`."""
        places = [(self.resources.node_of[each], "/gpu:" in each) for each in self.replicas]
        for stage in gather_among(self._topology).between(places):
            flows: Counter[Flow] = Counter()
            for ((source, on_gpu), (target, to_gpu)), parts in stage.items():
                within = source == target and on_gpu and to_gpu
                flows[self._maker.flow_like(transfer, source, target, not within)] += parts
            yield flows

    def _of_other(self, recipe: Recipe, server: str, other: str) -> Recipe:
        """What `recipe` is of a server, of one that is like it."""

        def of_other(parts: tuple[int, ...]) -> tuple[int, ...]:
            made = [self._maker.of_other(self.parts[part], server, other) for part in parts]
            return self._numbered(made, [self.stands_for[part] for part in parts])

        return Recipe(*map(of_other, (recipe.pull, recipe.push, recipe.work, recipe.send)))

    def _numbered(self, parts: Sequence[Part], like: Sequence[int] | None = None) -> tuple[int, ...]:
        numbers = range(len(self.parts), len(self.parts) + len(parts))
        self.parts += parts
        self.stands_for += like or numbers
        return tuple(numbers)
