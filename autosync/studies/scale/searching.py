"""One cell: a model on a cluster, the predicted step of each baseline, and of the best that a search finds."""

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
from autosync.cost import AnalyticSimulator, Drafted, Replay, Simulator
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
"""Version of what makes a cell's result, beside models and clusters: raise it with the simulators and the searcher."""


class _Known:
    """A simulator that stays as it is: what it predicts is what trials take here, so there is nothing to learn."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator

    def predict(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> npt.NDArray[np.float64]:
        return self._simulator.predict(model, cluster, strategies)

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        del records, weights


@dataclass(frozen=True)
class Asked:
    """What is searched: `trials` are asked for with `seed`."""

    model: ModelSpec
    cluster: ClusterSpec
    space: Space
    trials: int
    seed: int


def searched(asked: Asked, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """What came of a search on the replay, as JSON: `baselines`, the `tuned` all-reduce and `best` in predicted seconds
    of a step, how long the search took of a processor, and the most memory that this process has had.

    A trial takes what the replay predicts. All baselines are predicted, whether they are tried or not.
    """
    model, cluster, replay = asked.model, asked.cluster, Replay()
    begun = time.process_time()
    space = asked.space.bind(model, cluster)
    baselines = different_strategies(BASELINES, model, cluster)
    names = list(baselines)
    predicted = np.exp(replay.predict(model, cluster, list(baselines.values()))).tolist()
    before = time.process_time()
    searcher = GuidedSearch(
        space, list(baselines.items()), asked.seed, Drafted(_Known(AnalyticSimulator()), _Known(replay))
    )
    found: list[tuple[float, str, Strategy]] = []
    while len(found) < asked.trials:
        proposals = searcher.ask(min(GuidedOptions.round_size, asked.trials - len(found)))
        if not proposals:
            break
        for proposal in proposals:
            seconds = math.exp(replay.predict(model, cluster, [proposal.strategy])[0])
            found.append((seconds, proposal.label, proposal.strategy))
            record = RuntimeRecord(
                model, cluster, proposal.strategy, TimingProtocol(), "ok", proposal.purpose, proposal.label, "scale",
                asked.seed, float(len(found)), step_seconds=(seconds,),
            )  # fmt: skip
            searcher.tell(record)
        say(f"{len(found)} of {asked.trials} trials, best {1e3 * min(each[0] for each in found):.1f} ms")
    after = time.process_time()
    seconds, label, strategy = min(found, key=lambda each: each[0])
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "baselines": dict(zip(names, predicted, strict=True)),
        **_tuned(replay, model, cluster),
        "best": seconds,
        "best_label": label,
        "best_trial": 1 + min(range(len(found)), key=lambda place: found[place][0]),
        "best_decides": decides(strategy, model),
        "computing": _computing(replay, model, cluster, strategy),
        "trials": len(found),
        "search_seconds": after - before,
        "baseline_seconds": before - begun,
        "peak_bytes": peak_bytes,
    }


def _tuned(replay: Replay, model: ModelSpec, cluster: ClusterSpec) -> dict[str, Any]:
    """The all-reduce that is tuned by hand: its predicted seconds `tuned`, and its bucket size and algorithm."""
    grid = all_reduce_grid(model, cluster)
    seconds = np.exp(replay.predict(model, cluster, list(grid.values()))).tolist()
    least, label = min(zip(seconds, grid, strict=True))
    return {"tuned": least, "tuned_label": label}


def _computing(replay: Replay, model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> float:
    """Seconds of both passes: no strategy can have a shorter step."""
    return replay.figures(model, cluster, strategy).compute_seconds


def _adder(shard: Synchronizer) -> str:
    """Who adds up the shard's gradients: an all-reduce's algorithm, every replica what it has gathered, or servers."""
    if isinstance(shard, ParameterServer):
        return "servers"
    return "gathered" if shard.gathers else shard.algorithm


def decides(strategy: Strategy, model: ModelSpec) -> Mapping[str, Any]:
    """The shares of the gradient's bytes by who adds them up, and how many shards and servers there are."""
    shares: defaultdict[str, float] = defaultdict(float)
    for each in strategy.variables:
        part = model.by_name[each.variable].gradient_bytes / len(each.shards) / model.gradient_bytes
        for shard in each.shards:
            shares[_adder(shard)] += part
    return {
        "shares": dict(sorted(shares.items(), key=lambda item: -item[1])),
        "shards": sum(len(each.shards) for each in strategy.variables),
        "servers": len({device for each in strategy.variables for device in each.devices}),
        "buckets": len({shard.group for each in strategy.variables for shard in each.reductions}),
    }
