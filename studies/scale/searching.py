"""One cell, a model on a cluster: predicts the step of each baseline and of the best strategy of a search."""

from __future__ import annotations

import math
import resource
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autosync.baselines import BASELINES, different_strategies
from autosync.baselines.tuned import all_reduce_grid
from autosync.cost import AnalyticSimulator, CascadeSimulator, Replay, Simulator
from autosync.search.guided.searcher import GuidedOptions, GuidedSearch
from autosync.space import Space
from autosync.spec import (
    ClusterSpec,
    ModelSpec,
    ParameterServer,
    RuntimeRecord,
    Strategy,
    Synchronizer,
    TimingProtocol,
)

VERSION = 3
"""Version of the code that makes a cell's result. Raise it if the simulators or the searcher change; models and
clusters are in the key themselves."""


class _FixedSimulator:
    """A simulator without learning, because trials take exactly the predicted times here."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator

    def predict(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> npt.NDArray[np.float64]:
        return self._simulator.predict(model, cluster, strategies)

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        del records, weights


@dataclass(frozen=True)
class ScaleRequest:
    """A request to search one cell with `trials` trials."""

    model: ModelSpec
    cluster: ClusterSpec
    space: Space
    trials: int
    seed: int


def search_cell(request: ScaleRequest, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Search one cell on the replay and return the result as JSON.

    The result has the predicted seconds of a step for all `baselines`, whether tried or not, for the `tuned` all-reduce
    and for the `best` strategy found, the processor seconds of the search, and the peak memory of this process. A trial
    takes the time that the replay predicts.
    """
    model, cluster, replay = request.model, request.cluster, Replay()
    begin = time.process_time()
    space = request.space.bind(model, cluster)
    baselines = different_strategies(BASELINES, model, cluster)
    names = list(baselines)
    predicted = np.exp(replay.predict(model, cluster, list(baselines.values()))).tolist()
    before = time.process_time()
    searcher = GuidedSearch(
        space,
        list(baselines.items()),
        request.seed,
        CascadeSimulator(_FixedSimulator(AnalyticSimulator()), _FixedSimulator(replay)),
    )
    tried: list[tuple[float, str, Strategy]] = []
    while len(tried) < request.trials:
        proposals = searcher.ask(min(GuidedOptions.round_size, request.trials - len(tried)))
        if not proposals:
            break
        for proposal in proposals:
            seconds = math.exp(replay.predict(model, cluster, [proposal.strategy])[0])
            tried.append((seconds, proposal.label, proposal.strategy))
            record = RuntimeRecord(
                model, cluster, proposal.strategy, TimingProtocol(), "ok", proposal.purpose, proposal.label, "scale",
                request.seed, float(len(tried)), step_seconds=(seconds,),
            )  # fmt: skip
            searcher.tell(record)
        say(f"{len(tried)} of {request.trials} trials, best {1e3 * min(trial[0] for trial in tried):.1f} ms")
    after = time.process_time()
    seconds, label, strategy = min(tried, key=lambda trial: trial[0])
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "baselines": dict(zip(names, predicted, strict=True)),
        **_best_all_reduce(replay, model, cluster),
        "best": seconds,
        "best_label": label,
        "best_trial": 1 + min(range(len(tried)), key=lambda place: tried[place][0]),
        "best_decides": decides(strategy, model),
        "computing": _computing(replay, model, cluster, strategy),
        "trials": len(tried),
        "search_seconds": after - before,
        "baseline_seconds": before - begin,
        "peak_bytes": peak_bytes,
    }


def _best_all_reduce(replay: Replay, model: ModelSpec, cluster: ClusterSpec) -> dict[str, Any]:
    """Return the predicted seconds, bucket size and algorithm of the best all-reduce on a grid, as tuned by hand."""
    grid = all_reduce_grid(model, cluster)
    seconds = np.exp(replay.predict(model, cluster, list(grid.values()))).tolist()
    least, label = min(zip(seconds, grid, strict=True))
    return {"tuned": least, "tuned_label": label}


def _computing(replay: Replay, model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> float:
    """Return the seconds of both passes, which no step can be shorter than."""
    return replay.figures(model, cluster, strategy).compute_seconds


def _adder(shard: Synchronizer) -> str:
    """Return where the shard's gradients are summed: by an all-reduce's algorithm, by every replica, or on servers."""
    if isinstance(shard, ParameterServer):
        return "servers"
    return "gathered" if shard.gathers else shard.algorithm


def decides(strategy: Strategy, model: ModelSpec) -> Mapping[str, Any]:
    """Return the shares of the gradient's bytes by the place of their sum, and the numbers of shards and servers."""
    shares: defaultdict[str, float] = defaultdict(float)
    for variable in strategy.variables:
        part = model.by_name[variable.variable].gradient_bytes / len(variable.shards) / model.gradient_bytes
        for shard in variable.shards:
            shares[_adder(shard)] += part
    return {
        "shares": dict(sorted(shares.items(), key=lambda item: -item[1])),
        "shards": sum(len(variable.shards) for variable in strategy.variables),
        "servers": len({device for variable in strategy.variables for device in variable.devices}),
        "buckets": len({shard.group for variable in strategy.variables for shard in variable.reductions}),
    }
