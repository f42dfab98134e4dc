"""A few knobs for the whole graph, as autotuners of training frameworks have them.

Horovod's autotuner (`horovod/common/parameter_manager.cc`) tunes the bytes of its fusion buffer, the time between
rounds, and whether all-reduces are hierarchical; BytePS's partition size and number of servers are tuned in the same
way (Peng et al., "A Generic Communication Scheduler for Distributed DNN Training Acceleration", SOSP 2019). All of
these that mean something here are knobs, and who adds up is one more.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

from autosync.search.rivals.encoding import Dimension, Point, drawn_point, neighbour
from autosync.search.rivals.knob_setting import KINDS, KnobSetting, described
from autosync.space import SearchSpace
from autosync.spec import Strategy

LEAST_BUCKET_BYTES = 65_536
LEADERS = 5


@final
@dataclass(frozen=True)
class _Knob:
    """One dimension with the values that its numbers stand for."""

    name: str
    values: tuple[object, ...]
    ordered: bool

    def number_of(self, value: object) -> int:
        """The number of `value`; for a size that has none, of the nearest on a logarithmic scale; else the first."""
        if value in self.values:
            return self.values.index(value)
        if not self.ordered or not isinstance(value, int | float):
            return 0
        if math.isinf(value):
            return len(self.values) - 1
        apart = [abs(math.log(float(each) / value)) for each in self.values]  # type: ignore[arg-type]
        return min(range(len(apart)), key=apart.__getitem__)


@final
class Knobs:
    """Seven knobs; a knob with one choice in a space is no dimension."""

    suffix = "-knobs"

    def __init__(self, space: SearchSpace, candidates: int = 300) -> None:
        """Half of the `candidates` are drawn evenly, half are neighbours of leaders."""
        self._space = space
        self._count = candidates

    @cached_property
    def dimensions(self) -> tuple[Dimension, ...]:
        return tuple(Dimension(each.name, len(each.values), each.ordered) for each in self._knobs)

    def point(self, strategy: Strategy) -> Point:
        setting = described(self._space, strategy)
        return tuple(knob.number_of(getattr(setting, knob.name)) for knob in self._knobs)

    def strategy(self, point: Point) -> Strategy:
        chosen = dict(self._fixed)
        chosen |= {knob.name: knob.values[number] for knob, number in zip(self._knobs, point, strict=True)}
        return self._space.adopt(KnobSetting(**chosen).strategy(self._space), random.Random(0))  # type: ignore[arg-type]

    def candidates(self, leaders: Sequence[Strategy], rng: random.Random) -> list[Strategy]:
        some = [self.point(each) for each in leaders[:LEADERS]]
        near = [neighbour(self.dimensions, rng.choice(some), rng) for _ in range(self._count // 2 if some else 0)]
        drawn = [drawn_point(self.dimensions, rng) for _ in range(self._count - len(near))]
        return [self.strategy(point) for point in dict.fromkeys([*near, *drawn])]

    @cached_property
    def _knobs(self) -> tuple[_Knob, ...]:
        return tuple(each for each in self._all if len(each.values) > 1)

    @cached_property
    def _fixed(self) -> dict[str, object]:
        """The values of the knobs that have no choice here."""
        return {each.name: each.values[0] for each in self._all if len(each.values) == 1}

    @cached_property
    def _all(self) -> tuple[_Knob, ...]:
        domains = self._space.domains
        total = sum(domain.gradient_bytes for domain in domains.each)
        doublings = max(0, math.ceil(math.log2(total / LEAST_BUCKET_BYTES)))
        sizes = tuple(LEAST_BUCKET_BYTES << power for power in range(doublings + 1))
        algorithms = dict.fromkeys(shard.algorithm for domain in domains.each for shard in domain.reductions)
        copies = dict.fromkeys(copy for domain in domains.each for copy in domain.copies)
        servers = max(1, len(domains.devices))
        return (
            _Knob("kind", KINDS, ordered=False),
            _Knob("big_bytes", sizes, ordered=True),
            _Knob("bucket_bytes", sizes, ordered=True),
            _Knob("cut_bytes", (*sizes, math.inf) if domains.cuttable else (math.inf,), ordered=True),
            _Knob("servers", tuple(range(1, servers + 1)), ordered=True),
            _Knob("algorithm", tuple(algorithms) or ("ring",), ordered=False),
            _Knob("local_copy", tuple(copies) or (False,), ordered=False),
        )
