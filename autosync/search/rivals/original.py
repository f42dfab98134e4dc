"""The original's search: independent samples, filtered by a simulator's score; a diverse few of them are timed.

Zhang et al.: "AutoSync: Learning to Synchronize for Data-Parallel Distributed Deep Learning", NeurIPS 2020, as in its
public code (petuum/autodist, commit 245a9d8, `autodist/search/random_search.py`): samples are drawn until `explored` of
them score below a threshold; of these, `picked` are timed, chosen one by one as

    argmax over x of  - score(x) + diversity * (share of x's variables decided as in no strategy picked before)

where a decision leaves out devices and groups ("expression" in that code; its other form compares hidden states of its
own network). Three things had to be made definite. There, the threshold was a number set by hand for each model; here,
it is the score that a `kept_share` of the first samples do not exceed. Scores had no unit; here, they are log seconds
divided by their standard deviation among the survivors. There, users fitted again and continued by hand; here, a round
begins with a fit.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from autosync.cost import Simulator
from autosync.numeric import FloatArray
from autosync.search.ledger import STATE
from autosync.search.protocol import Proposal
from autosync.search.rivals.independent_samples import independent_sample
from autosync.search.searcher import RoundSearch, SearcherArguments
from autosync.space import SearchSpace
from autosync.spec import AllReduce, Strategy
from autosync.spec.codec import read_required

Expression = tuple[object, ...]
"""A variable's cut, and for each shard how it is summed and encoded, without its device."""

MOST_DRAWS = 11
"""The most rounds of samples, each of the wanted number of survivors, before a round proceeds with fewer."""


@final
@dataclass(frozen=True)
class OriginalOptions:
    """The smallest setting that the folder names of the original's data mention: 20 of 100, with a weight of 0.3."""

    explored: int = 100
    picked: int = 20
    kept_share: float = 0.5
    diversity: float = 0.3


@final
class OriginalSearch(RoundSearch):
    """Rounds of independent samples.

    The searcher owns `simulator` and fits it to all records at the start of a round, so the simulator has no saved
    state.
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
    def of(cls, arguments: SearcherArguments) -> OriginalSearch:
        return cls(arguments.space, arguments.baselines, arguments.seed, arguments.simulator())

    def _extra_state(self) -> dict[str, Any]:
        return super()._extra_state() | {"round": self._round}

    def _restore_extra(self, state: Mapping[str, Any]) -> None:
        super()._restore_extra(state)
        self._round = read_required(state, "round", int, STATE)

    def _pick_round(self) -> list[Proposal]:
        records = self._ledger.records()
        if any(record.timed for record in records):
            self._simulator.fit(records)
        rng = random.Random(f"{self._seed}/{self.name}/{self._round}")
        self._round += 1
        candidates, scores = self._survivors(rng)
        if not candidates:
            stray = self._ledger.sample_new(rng)
            return [Proposal(stray, "random")] if stray else []
        picks = _diverse(candidates, scores, self._options)
        return [Proposal(candidates[pick], self.name, math.exp(scores[pick])) for pick in picks]

    def _survivors(self, rng: random.Random) -> tuple[list[Strategy], FloatArray]:
        """Return new strategies with scores up to the threshold, and their scores. A small space's samples come from
        those left.
        """
        left, wanted, threshold = self._ledger.left(), self._options.explored, math.inf
        kept: dict[Strategy, float] = {}
        for _ in range(MOST_DRAWS if left is None else 1):
            drawn = self._draw_new(wanted, rng) if left is None else rng.sample(left, min(len(left), wanted))
            scores = self._scores(drawn)
            if drawn and not kept:
                threshold = float(np.quantile(scores, self._options.kept_share))
            kept |= {
                strategy: score for strategy, score in zip(drawn, scores.tolist(), strict=True) if score <= threshold
            }
            if len(kept) >= wanted:
                break
        chosen = list(kept)[:wanted]
        return chosen, np.array([kept[strategy] for strategy in chosen])

    def _draw_new(self, count: int, rng: random.Random) -> list[Strategy]:
        """Draw `count` samples and return the different new ones."""
        samples = dict.fromkeys(independent_sample(self._ledger.space, rng) for _ in range(count))
        return [strategy for strategy in samples if self._ledger.is_new(strategy)]

    def _scores(self, strategies: list[Strategy]) -> FloatArray:
        if not strategies:
            return np.zeros(0)
        return self._simulator.predict(self._ledger.space.model, self._ledger.space.cluster, strategies)


def _diverse(candidates: Sequence[Strategy], scores: FloatArray, options: OriginalOptions) -> list[int]:
    """Return indices picked greedily: low scores, and decisions that no earlier pick has."""
    standard = scores / max(float(scores.std()), 1e-9)
    expressions = [_expressions(strategy) for strategy in candidates]
    seen: list[set[Expression]] = [set() for _ in expressions[0]]
    picks: list[int] = []
    while len(picks) < min(options.picked, len(candidates)):
        novel = [
            sum(expression not in known for expression, known in zip(candidate, seen, strict=True)) / len(seen)
            for candidate in expressions
        ]
        gains = options.diversity * np.array(novel) - standard
        gains[picks] = -np.inf
        picks.append(int(np.argmax(gains)))
        for expression, known in zip(expressions[picks[-1]], seen, strict=True):
            known.add(expression)
    return picks


def _expressions(strategy: Strategy) -> list[Expression]:
    expressions: list[Expression] = []
    for decision in sorted(strategy.variables, key=lambda decision: decision.variable):
        shards = [
            ("all-reduce", shard.algorithm, shard.compressor)
            if isinstance(shard, AllReduce)
            else ("server", shard.local_copy, shard.compressor)
            for shard in decision.shards
        ]
        expressions.append((decision.partition, *shards))
    return expressions
