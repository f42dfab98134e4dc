"""The full encoding: for each variable how it is summed, how it is cut, and whether a bucket begins with it. A last
dimension states whether steps overlap with the next forward pass.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import final

from autosync.search.rivals.encoding import Dimension, Point
from autosync.space import SearchSpace
from autosync.spec import AllReduce, ParameterServer, Partition, Strategy, Synchronizer, Variable, VariableStrategy

LEADERS = 5

Looks = tuple[int, int, int]
"""One variable's choices: the number of its synchronizer, the number of its cut, and 1 if it begins a bucket, else 0.
"""


@final
class PerVariable:
    """Points hold up to three choices per variable, and the overlap; the remaining decisions follow a plain rule.

    Shards on servers go to the chosen device and those after it, round-robin. All-reduced shards share a bucket, which
    continues in the order in which gradients become ready until a variable begins a new one.
    """

    suffix = ""

    def __init__(self, space: SearchSpace, candidates: int = 300) -> None:
        """Sample half of the `candidates` from the space; the other half are mutations of leaders."""
        self._space = space
        self._count = candidates
        self._domains = space.domains.each
        self._options: list[tuple[Synchronizer, ...]] = [
            (*domain.servers, *domain.reductions) for domain in self._domains
        ]
        self._ready = sorted(range(len(self._domains)), key=lambda index: self._variable(index).ready_order)
        self._numbered = [
            (place, dimension) for place, dimension in enumerate(self._all_dimensions()) if dimension.choices > 1
        ]
        self.dimensions = tuple(dimension for _, dimension in self._numbered)

    def point(self, strategy: Strategy) -> Point:
        numbers = [number for looks in self._looks(strategy) for number in looks]
        numbers.append(int(strategy.overlap_next_forward))
        return tuple(min(numbers[place], dimension.choices - 1) for place, dimension in self._numbered)

    def strategy(self, point: Point) -> Strategy:
        numbers = [0] * (3 * len(self._domains) + 1)
        for (place, _), number in zip(self._numbered, point, strict=True):
            numbers[place] = number
        decided: dict[int, VariableStrategy] = {}
        groups: dict[Synchronizer, int] = {}
        opened = 0
        for index in self._ready:
            by, cut, begins = numbers[3 * index : 3 * index + 3]
            chosen = self._options[index][by]
            if isinstance(chosen, AllReduce) and (begins or chosen not in groups):
                groups[chosen] = opened
                opened += 1
            decided[index] = self._decision(index, chosen, self._domains[index].cuts[cut], groups)
        variables = tuple(decided[index] for index in range(len(self._domains)))
        wanted = Strategy(self._space.replicas, variables, overlap_next_forward=numbers[-1] == 1)
        return self._space.adopt(wanted, random.Random(0))

    def candidates(self, leaders: Sequence[Strategy], rng: random.Random) -> list[Strategy]:
        parents = leaders[:LEADERS]
        near = [self._space.mutate(rng.choice(parents), rng) for _ in range(self._count // 2 if parents else 0)]
        return [*near, *(self._space.sample(rng) for _ in range(self._count - len(near)))]

    def _all_dimensions(self) -> Iterator[Dimension]:
        """Yield three dimensions per variable, in the order of `Looks`, and then the overlap."""
        for domain, options in zip(self._domains, self._options, strict=True):
            name = domain.variable.name
            yield Dimension(f"{name} by", len(options), ordered=False)
            yield Dimension(f"{name} cut", len(domain.cuts), ordered=True)
            yield Dimension(f"{name} begins", 2 if domain.reductions else 1, ordered=True)
        yield Dimension("overlap", 2 if self._space.domains.overlap else 1, ordered=True)

    def _variable(self, index: int) -> Variable:
        return self._domains[index].variable

    def _looks(self, strategy: Strategy) -> list[Looks]:
        """Return the choices that describe each variable in `strategy` best, in the domains' order."""
        looks: dict[int, Looks] = {}
        last: dict[Synchronizer, int] = {}
        for index in self._ready:
            decision = strategy.by_name[self._variable(index).name]
            first, begins = decision.shards[0], 0
            if isinstance(first, AllReduce):
                kind = replace(first, group=0)
                begins = int(last.get(kind, first.group) != first.group)
                last[kind] = first.group
            looks[index] = self._number_of(index, first), self._cut_of(index, decision.partition), begins
        return [looks[index] for index in range(len(self._domains))]

    def _number_of(self, index: int, shard: Synchronizer) -> int:
        """Return the number of the option equal to `shard`, or of the first most similar option."""

        def unlike(number: int) -> tuple[bool, ...]:
            option = self._options[index][number]
            if isinstance(option, AllReduce) and isinstance(shard, AllReduce):
                return False, option.algorithm != shard.algorithm, option.compressor != shard.compressor
            if isinstance(option, ParameterServer) and isinstance(shard, ParameterServer):
                same_copy = option.local_copy == shard.local_copy
                return False, option.device != shard.device, not same_copy or option.compressor != shard.compressor
            return True, True, True

        return min(range(len(self._options[index])), key=unlike)

    def _cut_of(self, index: int, cut: Partition | None) -> int:
        def distance(number: int) -> tuple[int, bool]:
            option = self._domains[index].cuts[number]
            apart = abs((option.shards if option else 1) - (cut.shards if cut else 1))
            return apart, bool(option and cut and option.axis != cut.axis)

        return min(range(len(self._domains[index].cuts)), key=distance)

    def _decision(
        self, index: int, chosen: Synchronizer, cut: Partition | None, groups: dict[Synchronizer, int]
    ) -> VariableStrategy:
        name, count = self._variable(index).name, cut.shards if cut else 1
        if isinstance(chosen, AllReduce):
            return VariableStrategy(name, (replace(chosen, group=groups[chosen]),) * count, cut)
        devices = self._domains[index].devices
        first = devices.index(chosen.device)
        shards = [replace(chosen, device=devices[(first + shard) % len(devices)]) for shard in range(count)]
        return VariableStrategy(name, tuple(shards), cut)
