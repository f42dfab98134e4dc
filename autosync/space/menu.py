"""Menus of disciplines that a race to a target offers on a given cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

from autosync.errors import SpaceError
from autosync.spec import (
    PLAIN,
    BlockMomentum,
    CutOff,
    Discipline,
    Elastic,
    Fidelity,
    Loads,
    Probed,
    Rhythm,
    TopKTransport,
)

GRAVAC_RATIOS = (1.0, 0.1, 0.05, 0.025, 0.00625, 0.001)
"""GraVAC's candidate ratios, 1/10 to 1/1000, and 1 for the case that none of them keeps enough of the gradient."""

AR_TOPK_RATIOS = (0.1, 0.033, 0.011, 0.004, 0.001)
"""The ratios that AR-Topk's controller chooses from."""

AR_TOPK_WAYS = TopKTransport("own"), TopKTransport("star", "ring"), TopKTransport("star", "tree")


@dataclass(frozen=True)
class Circumstances:
    """The cluster that a menu is offered on.

    `probed` are measurements of its slowest link. `streams` are the examples per second that arrive at each replica;
    empty if examples do not arrive in streams.
    """

    replicas: int
    probed: Probed
    streams: tuple[float, ...] = ()


@dataclass(frozen=True)
class OfferedDiscipline:
    """A named discipline with the settings of its source."""

    name: str
    source: str
    """The publication, and the settings that are used."""
    discipline: Discipline = PLAIN
    keeps: float | None = None
    """Ratio of top-k, which compresses every dense gradient that is all-reduced; None for no compression."""
    workers: int | None = None
    """Number of replicas that train: the ones without which a step would take longest. None for all."""


DisciplineRule: TypeAlias = Callable[[Circumstances], Discipline | None]
"""Returns the discipline for the given circumstances, or None if it is not applicable."""


@dataclass(frozen=True)
class MenuEntry:
    """A discipline on a menu, which may depend on the circumstances."""

    name: str
    source: str
    """As in `Offer`."""
    discipline: Discipline | DisciplineRule = PLAIN
    """The discipline, or a function of the circumstances that returns it."""
    keeps: float | None = None
    """As in `Offer`."""
    leaves: int = 0
    """Number of replicas that do not train."""

    def of(self, around: Circumstances) -> OfferedDiscipline | None:
        """The offer under these circumstances; None if the discipline is not applicable or no replica would train."""
        discipline = self.discipline if isinstance(self.discipline, Discipline) else self.discipline(around)
        if discipline is None or self.leaves >= around.replicas:
            return None
        workers = around.replicas - self.leaves if self.leaves else None
        return OfferedDiscipline(self.name, self.source, discipline, self.keeps, workers)


@final
@dataclass(frozen=True)
class Menu:
    """A set of disciplines to choose from. `description` is one line for people."""

    name: str
    description: str
    entries: tuple[MenuEntry, ...]

    def __post_init__(self) -> None:
        names = [entry.name for entry in self.entries]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise SpaceError(f"Menu {self.name!r} offers {twice!r} twice; give each entry its own name.")

    def of(self, around: Circumstances) -> tuple[OfferedDiscipline, ...]:
        """The offers under these circumstances."""
        return tuple(offer for entry in self.entries if (offer := entry.of(around)) is not None)


def backup_workers(count: int, around: Circumstances) -> Discipline | None:
    """The cut-off with which a step does not wait for the last `count` replicas; None if under two would remain."""
    return Discipline(waits=CutOff(around.replicas - count)) if around.replicas > count + 1 else None


def block_momentum(steps: int, around: Circumstances) -> Discipline:
    """A meeting every `steps` steps, with block momentum 1 - 1 / n on n replicas."""
    return Discipline(Rhythm(steps, block=BlockMomentum(1 - 1 / around.replicas)))


def elastic(steps: int, beta: float, around: Circumstances) -> Discipline:
    """An elastic meeting every `steps` steps, with pulls that sum to `beta` over replicas."""
    return Discipline(Rhythm(steps, elastic=Elastic(beta / around.replicas)))


def by_formula(
    ratios: tuple[float, ...], ways: tuple[TopKTransport, ...], time_weight: float | None, around: Circumstances
) -> Discipline:
    """A fidelity whose transport AR-Topk's formulas choose from `ways`; with `time_weight`, also the ratio."""
    return Discipline(fidelity=Fidelity(ratios, 1, transports=ways, probed=around.probed, time_weight=time_weight))


def equal_loads(dead_band: float | None, times: float, around: Circumstances) -> Discipline:
    """Loads of steps with `times` the examples: equal for all replicas, or only at first if `dead_band` is stated."""
    return Discipline(loads=Loads((1.0,) * around.replicas, dead_band, times=times))


def loads_of_streams(around: Circumstances) -> Discipline | None:
    """Loads in proportion to the examples that arrive at each replica; None without a stream at every replica."""
    if len(around.streams) != around.replicas:
        return None
    return Discipline(loads=Loads(tuple(rate / max(around.streams) for rate in around.streams)))
