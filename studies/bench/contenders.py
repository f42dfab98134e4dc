"""The contenders of a replay: every searcher of the registry, and variants of guided search."""

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
from autosync.search.searcher import SearcherArguments
from autosync.space import SearchSpace
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.tune.options import CLOSED_FORMS, SIMULATORS
from autosync.tune.recorded.cells import RecordedCell
from studies.bench.oracle import IdealSearch, ideal_order
from studies.bench.pooled_simulator import PooledSimulator, PredictionMemory

if TYPE_CHECKING:
    from autosync.simulator import LearnedSimulator

NETWORK = "linear"
"""The network over the replay, unless a contender's name says another. Graph networks take ten seconds a fit."""

MEMBERS = 3
"""Members of its ensemble, instead of five, because the replay does not use the ensemble's spread."""

ALL = 1000
"""A number larger than the number of baselines."""

OURS = "guided"
IDEAL = "ideal"
"""The name of the oracle, a reference and no rival: it knows each strategy's noise-free time as far as records tell."""


@final
@dataclass(frozen=True)
class PriorKnowledge:
    """The knowledge that a contender starts with."""

    checkpoint: Path | None = None
    """A simulator pretrained on other cells, for contenders that transfer."""
    cell: RecordedCell | None = None
    """The measurements of the searched cell, for `IDEAL` only."""
    memory: PredictionMemory = field(default_factory=dict)
    """The memory of `PooledSimulator`, one per cell."""


@final
@dataclass(frozen=True)
class Beginning:
    """The inputs of a search."""

    space: SearchSpace
    baselines: Sequence[tuple[str, Strategy]]
    seed: int
    known: PriorKnowledge


MakeSearcher: TypeAlias = Callable[[Beginning], Searcher]
MakeSimulator: TypeAlias = Callable[[Beginning], Simulator]


@final
class Constant:
    """A simulator without knowledge: it predicts the same time for every strategy."""

    def predict(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> npt.NDArray[np.float64]:
        del model, cluster
        return np.zeros(len(strategies))

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        """Do nothing, because this simulator does not learn."""


def _ideal(start: Beginning) -> Searcher:
    """Return a search that always proposes the strategy with the least noise-free time, whether a baseline or not."""
    if start.known.cell is None:
        raise BenchError("The ideal search is computed from the cell that it searches; pass that cell.")
    return IdealSearch(
        start.space, [(IDEAL, strategy) for strategy in ideal_order(start.known.cell, start.seed)], start.seed
    )


def _registry_search(start: Beginning, name: str) -> Searcher:
    """Return the searcher called `name`, with its authors' kind of simulator if the searcher needs one."""
    simulator = partial(_pool_simulator, start, partial(_network_over, network=NETWORK, base="analytic"))
    return make_searcher(name, SearcherArguments(start.space, start.baselines, start.seed, simulator, lag=0))


def _original_search(start: Beginning, simulator: MakeSimulator) -> Searcher:
    return OriginalSearch(start.space, start.baselines, start.seed, _pool_simulator(start, simulator))


def _guided_search(start: Beginning, simulator: MakeSimulator, **changed: Any) -> Searcher:
    return GuidedSearch(
        start.space, start.baselines, start.seed, _pool_simulator(start, simulator), GuidedOptions(**changed)
    )


def _pool_simulator(start: Beginning, made: MakeSimulator) -> Simulator:
    parts = [made.func.__name__, made.keywords] if isinstance(made, partial) else [made.__name__]
    named = f"{parts} of {start.known.checkpoint}"
    return PooledSimulator(named, lambda: made(start), tuple(start.space.enumerate()), start.known.memory)


def _load_transferred(start: Beginning) -> Simulator:
    from autosync.simulator import LearnedSimulator  # imports torch, so only where needed

    if start.known.checkpoint is None:
        raise BenchError("A search that transfers knowledge needs the checkpoint pretrained on other cells; pass one.")
    return LearnedSimulator.load(start.known.checkpoint)


def _network_over(start: Beginning, network: str, base: str = "blended") -> Simulator:
    return untaught(_base_simulator(start, base), network)


def untaught(base: Simulator, network: str = NETWORK, members: int = MEMBERS) -> LearnedSimulator:
    """Return an untrained simulator with `network` over `base`; an ensemble of `NETWORK` has `members` members."""
    from autosync.simulator import LearnedSimulator, TrainingSettings

    return LearnedSimulator(base, network, settings=TrainingSettings(members=members) if network == NETWORK else None)


def _base_simulator(start: Beginning, name: str) -> Simulator:
    del start
    return BASES[name]()


def _nothing(start: Beginning) -> Simulator:
    del start
    return Constant()


_NETWORKS = [name for name in SIMULATORS if name not in ("auto", NETWORK, *CLOSED_FORMS)]

CONTENDERS: Mapping[str, MakeSearcher] = {
    OURS: partial(_guided_search, simulator=_load_transferred),
    **{name: partial(_registry_search, name=name) for name in SEARCHERS if name != OURS},
    "original-transferred": partial(_original_search, simulator=_load_transferred),
    **{
        f"guided-{name}": partial(_guided_search, simulator=partial(_base_simulator, name=name))
        for name in CLOSED_FORMS
    },
    **{f"guided-{name}": partial(_guided_search, simulator=partial(_network_over, network=name)) for name in _NETWORKS},
    "guided-no-transfer": partial(_guided_search, simulator=partial(_network_over, network=NETWORK)),
    "guided-no-replay": partial(_guided_search, simulator=partial(_network_over, network=NETWORK, base="analytic")),
    "guided-no-simulator": partial(_guided_search, simulator=_nothing),
    "guided-baselines-first": partial(_guided_search, simulator=_load_transferred, first_baselines=ALL),
    IDEAL: _ideal,
}
"""The contenders by name. A replay runs trials one by one, so a contender has seen all earlier trials when it proposes.

`guided` uses the replay corrected by `NETWORK`, both pretrained on other cells. `original` uses its authors' simulator:
a network trained during the search, whose inputs are a closed form's figures for links and servers. With *transferred*
it uses the simulator of `guided`.
"""

TRANSFERRING = frozenset((OURS, "original-transferred", "guided-baselines-first"))


@final
@dataclass(frozen=True)
class AblatedPair:
    """A pair of contenders: `less` is `whole` without the part that `left_out` names."""

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
