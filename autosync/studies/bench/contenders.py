"""The contenders of a replay: every searcher of the registry, and guided search with something changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np
import numpy.typing as npt

from autosync.cost import BASES, Simulator
from autosync.errors import BenchError
from autosync.search.guided.searcher import GuidedOptions, GuidedSearch
from autosync.search.protocol import Searcher
from autosync.search.registry import SEARCHERS, make_searcher
from autosync.search.rivals import OriginalSearch
from autosync.search.searcher import Asked
from autosync.space import SearchSpace
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.studies.bench.ideal import IdealSearch, foreseen
from autosync.studies.bench.pooled_simulator import Memory, PooledSimulator
from autosync.tune.options import CLOSED_FORMS, SIMULATORS
from autosync.tune.recorded.cells import RecordedCell

if TYPE_CHECKING:
    from autosync.simulator import LearnedSimulator

NETWORK = "linear"
"""The network over the replay, except where a contender's name says another: graph networks take ten seconds a fit."""

MEMBERS = 3
"""Members of its ensemble, in place of five: nobody asks here how sure it is."""

ALL = 1000
"""A number of baselines that is more than there are."""

OURS = "guided"
IDEAL = "ideal"
"""The name of a reference that is no rival: it knows what each strategy takes without noise, as far as records tell."""


@final
@dataclass(frozen=True)
class PriorKnowledge:
    """What a contender may know. `checkpoint` is of a simulator that was taught on other cells, for those that
    transfer; `memory`, one a cell, is that of `PooledSimulator`; `cell` is what was measured, for `IDEAL` alone."""

    checkpoint: Path | None = None
    cell: RecordedCell | None = None
    memory: Memory = field(default_factory=dict)


@final
@dataclass(frozen=True)
class Beginning:
    """What a search begins with."""

    space: SearchSpace
    baselines: Sequence[tuple[str, Strategy]]
    seed: int
    known: PriorKnowledge


Contender: TypeAlias = Callable[[Beginning], Searcher]
_Made: TypeAlias = Callable[[Beginning], Simulator]


@final
class Constant:
    """A simulator that knows nothing: every strategy takes the same time."""

    def predict(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> npt.NDArray[np.float64]:
        del model, cluster
        return np.zeros(len(strategies))

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        """Do nothing: there is nothing that it could learn."""


def _ideal(start: Beginning) -> Searcher:
    """A search that always proposes the strategy with the least time without noise, be it a baseline or not."""
    if start.known.cell is None:
        raise BenchError("What a search could do that knew everything is worked out from the cell that it searches.")
    return IdealSearch(start.space, [(IDEAL, each) for each in foreseen(start.known.cell, start.seed)], start.seed)


def _registered(start: Beginning, name: str) -> Searcher:
    """The searcher called `name`, with what its authors had for a simulator, if it asks for one."""
    simulator = partial(_pooled, start, partial(_learned, network=NETWORK, base="analytic"))
    return make_searcher(name, Asked(start.space, start.baselines, start.seed, simulator, lag=0))


def _original(start: Beginning, simulator: _Made) -> Searcher:
    return OriginalSearch(start.space, start.baselines, start.seed, _pooled(start, simulator))


def _guided(start: Beginning, simulator: _Made, **changed: Any) -> Searcher:
    return GuidedSearch(start.space, start.baselines, start.seed, _pooled(start, simulator), GuidedOptions(**changed))


def _pooled(start: Beginning, made: _Made) -> Simulator:
    parts = [made.func.__name__, made.keywords] if isinstance(made, partial) else [made.__name__]
    named = f"{parts} of {start.known.checkpoint}"
    return PooledSimulator(named, lambda: made(start), tuple(start.space.enumerate()), start.known.memory)


def _transferred(start: Beginning) -> Simulator:
    from autosync.simulator import LearnedSimulator  # torch is imported only where it is asked for

    if start.known.checkpoint is None:
        raise BenchError("A search that transfers knowledge needs the checkpoint of what other cells taught.")
    return LearnedSimulator.load(start.known.checkpoint)


def _learned(start: Beginning, network: str, base: str = "blended") -> Simulator:
    return untaught(_closed_form(start, base), network)


def untaught(base: Simulator, network: str = NETWORK, members: int = MEMBERS) -> LearnedSimulator:
    """A simulator with `network` over `base` that has learned nothing; an ensemble of `NETWORK` has `members`."""
    from autosync.simulator import LearnedSimulator, TrainingSettings

    return LearnedSimulator(base, network, settings=TrainingSettings(members=members) if network == NETWORK else None)


def _closed_form(start: Beginning, name: str) -> Simulator:
    del start
    return BASES[name]()


def _nothing(start: Beginning) -> Simulator:
    del start
    return Constant()


_NETWORKS = [name for name in SIMULATORS if name not in ("auto", NETWORK, *CLOSED_FORMS)]

CONTENDERS: Mapping[str, Contender] = {
    OURS: partial(_guided, simulator=_transferred),
    **{name: partial(_registered, name=name) for name in SEARCHERS if name != OURS},
    "original-transferred": partial(_original, simulator=_transferred),
    **{f"guided-{name}": partial(_guided, simulator=partial(_closed_form, name=name)) for name in CLOSED_FORMS},
    **{f"guided-{name}": partial(_guided, simulator=partial(_learned, network=name)) for name in _NETWORKS},
    "guided-no-transfer": partial(_guided, simulator=partial(_learned, network=NETWORK)),
    "guided-no-replay": partial(_guided, simulator=partial(_learned, network=NETWORK, base="analytic")),
    "guided-no-simulator": partial(_guided, simulator=_nothing),
    "guided-baselines-first": partial(_guided, simulator=_transferred, first_baselines=ALL),
    IDEAL: _ideal,
}
"""The contenders by name. In a replay trials run one by one, so each is told of all trials before it proposes.

`guided` has the replay, corrected by `NETWORK`, both taught on other cells first. `original` has what its authors had:
a network that reads what a closed form says of links and servers, taught in the search; *transferred*, it has ours.
"""

TRANSFERRING = frozenset((OURS, "original-transferred", "guided-baselines-first"))


@final
@dataclass(frozen=True)
class AblatedPair:
    """A contender `less`, which is the contender `whole` without what `left_out` names."""

    left_out: str
    whole: str
    less: str


ABLATIONS = (
    AblatedPair("the simulator", OURS, "guided-no-simulator"),
    AblatedPair("its search, the original's instead", OURS, "original-transferred"),
    AblatedPair("transfer from other cells", OURS, "guided-no-transfer"),
    AblatedPair("the network, the replay alone", "guided-no-transfer", "guided-replay"),
    AblatedPair("the replay, a network over the closed form", "guided-no-transfer", "guided-no-replay"),
    AblatedPair("the replay and the network, the closed form alone", "guided-replay", "guided-analytic"),
    AblatedPair("weighing baselines against others, all of them first", OURS, "guided-baselines-first"),
)
