"""The original's search: independent samples, less those that a simulator scores badly; a diverse few are timed.

Zhang et al.: "AutoSync: Learning to Synchronize for Data-Parallel Distributed Deep Learning", NeurIPS 2020, as its
public code has it (petuum/autodist, commit 245a9d8, `autodist/search/random_search.py`): samples are drawn until
`explored` of them have a score that is not over a threshold; of these, `picked` are timed, chosen one by one as

    argmax over x of  - score(x) + diversity * (share of x's variables decided as in no strategy picked before)

where a decision leaves out devices and groups ("expression" in that code; its other form compares hidden states of its
own network). Three things had to be made definite. There, the threshold was a number set by hand for each model; here,
it is the score that a `kept_share` of the first samples do not exceed. Scores had no unit; here, they are log seconds
over their deviation among the survivors. Learning from what was timed and going on was done by hand; here, a round
begins with a fit.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from autosync.cost import Simulator
from autosync.search.ledger import STATE
from autosync.search.protocol import Proposal
from autosync.search.rivals.independent_samples import independent_sample
from autosync.search.searcher import Asked, RoundSearch
from autosync.space import SearchSpace
from autosync.spec import AllReduce, Strategy
from autosync.spec.codec import required

Floats = npt.NDArray[np.float64]
Expression = tuple[object, ...]
"""How a variable is cut, and for each shard who adds up and how it is sent, but not where."""

MOST_DRAWS = 11
"""Samples, over the survivors that are wanted, after which a round makes do with those it has."""


@final
@dataclass(frozen=True)
class OriginalOptions:
    """The least that the folder names of the original's data tell of: 20 of 100, with a weight of 0.3."""

    explored: int = 100
    picked: int = 20
    kept_share: float = 0.5
    diversity: float = 0.3


@final
class OriginalSearch(RoundSearch):
    """Rounds of independent samples.

    The searcher owns `simulator` and fits it to all records at the start of a round, so no state of it is kept.
    """

    name = "original"

    def __init__(
        self,
        space: SearchSpace,
        baselines: Sequence[tuple[str, Strategy]],
        seed: int,
        simulator: Simulator,
        options: OriginalOptions = OriginalOptions(),
    ) -> None:
        super().__init__(space, baselines, seed)
        self._simulator = simulator
        self._options = options
        self._round = 0

    @classmethod
    def of(cls, asked: Asked) -> OriginalSearch:
        return cls(asked.space, asked.baselines, asked.seed, asked.simulator())

    def _own_state(self) -> dict[str, Any]:
        return super()._own_state() | {"round": self._round}

    def _restore_own(self, state: Mapping[str, Any]) -> None:
        super()._restore_own(state)
        self._round = required(state, "round", int, STATE)

    def _picked(self) -> list[Proposal]:
        records = self._ledger.records()
        if any(record.timed for record in records):
            self._simulator.fit(records)
        rng = random.Random(f"{self._seed}/{self.name}/{self._round}")
        self._round += 1
        candidates, scores = self._survivors(rng)
        if not candidates:
            stray = self._ledger.sampled(rng)
            return [Proposal(stray, "random")] if stray else []
        picks = _diverse(candidates, scores, self._options)
        return [Proposal(candidates[pick], self.name, math.exp(scores[pick])) for pick in picks]

    def _survivors(self, rng: random.Random) -> tuple[list[Strategy], Floats]:
        """New strategies with scores up to the threshold, and their scores; in a small space, of those left."""
        left, wanted, threshold = self._ledger.left(), self._options.explored, math.inf
        kept: dict[Strategy, float] = {}
        for _ in range(MOST_DRAWS if left is None else 1):
            drawn = self._drawn(wanted, rng) if left is None else rng.sample(left, min(len(left), wanted))
            scores = self._scores(drawn)
            if drawn and not kept:
                threshold = float(np.quantile(scores, self._options.kept_share))
            kept |= {each: score for each, score in zip(drawn, scores.tolist(), strict=True) if score <= threshold}
            if len(kept) >= wanted:
                break
        chosen = list(kept)[:wanted]
        return chosen, np.array([kept[each] for each in chosen])

    def _drawn(self, count: int, rng: random.Random) -> list[Strategy]:
        """The new ones among `count` samples, each once."""
        samples = dict.fromkeys(independent_sample(self._ledger.space, rng) for _ in range(count))
        return [each for each in samples if self._ledger.is_new(each)]

    def _scores(self, strategies: list[Strategy]) -> Floats:
        if not strategies:
            return np.zeros(0)
        return self._simulator.predict(self._ledger.space.model, self._ledger.space.cluster, strategies)


def _diverse(candidates: Sequence[Strategy], scores: Floats, options: OriginalOptions) -> list[int]:
    """Indices picked greedily: low scores, and decisions that no strategy picked before has."""
    standard = scores / max(float(scores.std()), 1e-9)
    expressions = [_expressions(each) for each in candidates]
    met: list[set[Expression]] = [set() for _ in expressions[0]]
    picks: list[int] = []
    while len(picks) < min(options.picked, len(candidates)):
        novel = [sum(one not in known for one, known in zip(each, met, strict=True)) / len(met) for each in expressions]
        gains = options.diversity * np.array(novel) - standard
        gains[picks] = -np.inf
        picks.append(int(np.argmax(gains)))
        for one, known in zip(expressions[picks[-1]], met, strict=True):
            known.add(one)
    return picks


def _expressions(strategy: Strategy) -> list[Expression]:
    found: list[Expression] = []
    for each in sorted(strategy.variables, key=lambda each: each.variable):
        shards = [
            ("all-reduce", shard.algorithm, shard.compressor)
            if isinstance(shard, AllReduce)
            else ("server", shard.local_copy, shard.compressor)
            for shard in each.shards
        ]
        found.append((each.partition, *shards))
    return found
