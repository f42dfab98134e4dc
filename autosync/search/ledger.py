"""The book a searcher keeps: the baselines yet to propose, what is pending, and the records told."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

from autosync.errors import SpecError
from autosync.search.protocol import GIVEN, Proposal
from autosync.space import SearchSpace
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy, quoted
from autosync.spec.codec import required

FORMAT = "autosync.searcher/5"
STATE = "A searcher's state"
"""What refusals call the document that a searcher is restored from."""

TRIES = 200
"""Draws in a row that must all have been seen for a big space to be taken as used up."""


@final
@dataclass(frozen=True)
class Observation:
    """A strategy that was timed `timings` times, and the median over its records' medians, in seconds a step."""

    strategy: Strategy
    median_seconds: float
    timings: int = 1


@final
class Ledger:
    """Never lets a strategy be proposed twice, nor one that differs from it only by devices that are alike.

    The space says in which order replicas stand (and rings go); another order counts as the same proposal.

    Proposals are numbered in the order made, and records are kept by the number of the proposal they answer: whatever
    order they arrive in, what is read here is the same. `drawn` counts the proposals that were not baselines.
    """

    def __init__(self, space: SearchSpace, baselines: Sequence[tuple[str, Strategy]]) -> None:
        self.space = space
        self.given: Sequence[Strategy] = ()
        """What is proposed before all else."""
        self.drawn = 0
        self._baselines = tuple(baselines)
        self._pending: dict[str, tuple[int, Proposal]] = {}
        self._seen: set[Strategy] = set()
        self._keys: set[tuple[object, ...]] = set()
        self._told: list[RuntimeRecord] = []
        self._unasked: list[int] = []
        self._answers: list[int | None] = []
        self._documents: list[dict[str, Any]] = []
        self._clusters: list[dict[str, Any]] = []

    @property
    def proposals(self) -> int:
        """How many proposals were made."""
        return len(self._answers)

    def baselines_left(self) -> list[Proposal]:
        """The new baselines, in the order given, each to be claimed; of those that decide the same, the first."""
        return [self._baseline(place) for standard, place in self._standards.items() if standard not in self._seen]

    def baseline_like(self, strategy: Strategy) -> Proposal | None:
        """The baseline that decides the same as `strategy`, if it is new."""
        standard = self._standard(strategy)
        known = standard in self._standards and standard not in self._seen
        return self._baseline(self._standards[standard]) if known else None

    def claimed_given(self) -> Proposal | None:
        """The next strategy of those given that is new, under its own name if it is a baseline."""
        strategy = next((each for each in self.given if self.is_new(each)), None)
        return None if strategy is None else self.claim(self.baseline_like(strategy) or Proposal(strategy, GIVEN))

    def claimed_baseline(self) -> Proposal | None:
        """The next baseline, if one is left."""
        left = self.baselines_left()
        return self.claim(left[0]) if left else None

    def is_new(self, strategy: Strategy) -> bool:
        """Whether the strategy was neither proposed nor told, nor was one like it."""
        return self._standard(strategy) not in self._seen

    def is_new_and_no_baseline(self, strategy: Strategy) -> bool:
        """Whether the strategy is new, and decides the same as no baseline."""
        standard = self._standard(strategy)
        return standard not in self._seen and standard not in self._standards

    def claim(self, proposal: Proposal) -> Proposal:
        """Mark the proposal as pending, and give it back. Of one strategy no two may be pending."""
        assert proposal.strategy.digest not in self._pending, "it is being timed already"
        self._seen.add(self._standard(proposal.strategy))
        self._pending[proposal.strategy.digest] = len(self._answers), proposal
        self._answers.append(None)
        return proposal

    def claim_drawn(self, strategy: Strategy | None, label: str) -> Proposal | None:
        """The strategy that a searcher has drawn, claimed; None when it has found none."""
        if strategy is None:
            return None
        self.drawn += 1
        return self.claim(Proposal(strategy, label))

    def sampled(self, rng: random.Random) -> Strategy | None:
        """A new strategy, sampled from the space; None when there is none."""
        return self.fresh(lambda: self.space.sample(rng), rng)

    def fresh(self, draw: Callable[[], Strategy], rng: random.Random) -> Strategy | None:
        """The first new strategy that `draw` gives; else, in a small space, one of those left; None with none left."""
        left = self.left()
        if left is not None and not left:
            return None
        for _ in range(TRIES):
            strategy = draw()
            if self.is_new(strategy):
                return strategy
        return rng.choice(left) if left else None

    def pending(self) -> list[Proposal]:
        return [proposal for _, proposal in self._pending.values()]

    def horizon(self, lag: int = 0) -> int | None:
        """How many proposals the next one may depend on: all but the last `lag`; None while one of them is pending.

        What depends on `records(horizon)` and `observations(horizon)` alone is the same whatever order records come in,
        and however many trials are under way at once.
        """
        known = max(0, len(self._answers) - lag)
        return None if any(number < known for number, _ in self._pending.values()) else known

    def tell(self, record: RuntimeRecord) -> None:
        """Keep `record` unless it was told before, or is of another model or cluster."""
        same_place = record.cluster == self.space.cluster or record.cluster.digest == self.space.cluster.digest
        if record.model.digest != self.space.model.digest or not same_place:
            return
        if _key(record) in self._keys:
            return
        number, _ = self._pending.pop(record.strategy.digest, (None, None))
        if number is None:
            self._unasked.append(len(self._told))
        else:
            self._answers[number] = len(self._told)
        self._keep(_plain(record))

    def records(self, before: int | None = None) -> list[RuntimeRecord]:
        """Records told unasked, as they came, then those that answer the first `before` proposals, or all proposals."""
        answers = [told for told in self._answers[:before] if told is not None]
        return [self._told[told] for told in (*self._unasked, *answers)]

    def observations(self, before: int | None = None) -> list[Observation]:
        """Every strategy that was timed, in the order of `records`."""
        medians: dict[str, list[float]] = {}
        strategies: dict[str, Strategy] = {}
        for record in self.records(before):
            if record.median_seconds is not None:
                strategies.setdefault(record.strategy.digest, record.strategy)
                medians.setdefault(record.strategy.digest, []).append(record.median_seconds)
        return [
            Observation(strategies[name], statistics.median(values), len(values)) for name, values in medians.items()
        ]

    def proposed(self, after: int) -> list[Strategy]:
        """Strategies of all proposals after the first `after`, in the order made, answered or not."""
        pending = {number: proposal.strategy for number, proposal in self._pending.values()}
        latest = list(enumerate(self._answers))[after:]
        return [pending[number] if told is None else self._told[told].strategy for number, told in latest]

    def left(self) -> list[Strategy] | None:
        """The strategies of a small space that are new; None when the space is too big to tell."""
        if self.space.size is None:
            return None
        return [strategy for strategy in self.space.enumerate() if strategy not in self._seen]

    def state(self, searcher: str, seed: int, **more: Any) -> dict[str, Any]:
        """The book and `more` of the searcher's own, as plain JSON values that share parts with the book."""
        return {
            "format": FORMAT,
            "searcher": searcher,
            "seed": seed,
            "space": self._space_name(),
            "drawn": self.drawn,
            "pending": [[number, proposal.to_json()] for number, proposal in self._pending.values()],
            "answers": list(self._answers),
            "clusters": list(self._clusters),
            "records": list(self._documents),
        } | more

    @classmethod
    def restored(cls, fresh: Ledger, state: Mapping[str, Any], searcher: str, seed: int) -> Ledger:
        """The book that gave `state`, with what `fresh` was made with. Raises `SpecError` if it was another's."""
        mine = {"format": FORMAT, "searcher": searcher, "seed": seed, "space": fresh._space_name()}
        for name, value in mine.items():
            if state.get(name) != value:
                raise SpecError(
                    f"{STATE} is restored by the searcher that saved it: its {name} is {quoted(state.get(name))}, "
                    f"this one's is {value!r}. Give the same arguments, or start anew."
                )
        book = cls(fresh.space, fresh._baselines)
        book.given = fresh.given
        clusters = [ClusterSpec.from_json(each) for each in required(state, "clusters", list, STATE)]
        for document in required(state, "records", list, STATE):
            book._keep(_record(document, fresh.space.model, clusters))
        told = range(len(book._told))
        book._answers = list(required(state, "answers", list, STATE))
        if not all(each is None or (type(each) is int and each in told) for each in book._answers):
            raise SpecError(f"{STATE} answers with the numbers of its {len(told)} records or null.")
        asked = set(book._answers)
        book._unasked = [each for each in told if each not in asked]
        for number, document in required(state, "pending", list, STATE):
            proposal = Proposal.from_json(document)
            book._seen.add(book._standard(proposal.strategy))
            book._pending[proposal.strategy.digest] = number, proposal
        book.drawn = required(state, "drawn", int, STATE)
        return book

    def _keep(self, record: RuntimeRecord) -> None:
        """Keep the record, and its JSON for `state`: the model is the space's, and clusters are said once."""
        self._keys.add(_key(record))
        self._seen.add(self._standard(record.strategy))
        self._told.append(record)
        cluster = record.cluster.to_json()
        if cluster not in self._clusters:
            self._clusters.append(cluster)
        document = record.to_json() | {"cluster": self._clusters.index(cluster)}
        del document["model"]
        self._documents.append(document)

    def _baseline(self, place: int) -> Proposal:
        label, strategy = self._baselines[place]
        return Proposal(strategy, label, purpose="baseline")

    @cached_property
    def _standards(self) -> dict[Strategy, int]:
        """The place of the first baseline that decides the same, by the strategy that stands for such baselines."""
        places: dict[Strategy, int] = {}
        for place, (_, strategy) in enumerate(self._baselines):
            places.setdefault(self._standard(strategy), place)
        return places

    def _standard(self, strategy: Strategy) -> Strategy:
        """The strategy that stands for all that decide the same, whatever their names: equal ones are one proposal."""
        space = self.space
        names = [variable.name for variable in space.model.variables]
        if [each.variable for each in strategy.variables] != names and set(names) == set(strategy.by_name):
            strategy = replace(strategy, variables=tuple(strategy.by_name[name] for name in names))
        if strategy.replicas != space.replicas and set(strategy.replicas) == set(space.replicas):
            strategy = replace(strategy, replicas=space.replicas)
        return space.canonical(strategy)

    def _space_name(self) -> str:
        return f"{self.space.name} of model {self.space.model.digest} on cluster {self.space.cluster.digest}"


def _key(record: RuntimeRecord) -> tuple[object, ...]:
    """What tells a record from all others."""
    trial = (record.run, record.purpose, record.label, record.seed, record.started_at)
    return (record.strategy.digest, record.outcome, *trial, *record.step_seconds)


def _plain(record: RuntimeRecord) -> RuntimeRecord:
    """The record less numbers that JSON cannot say, such as the loss of a trial that diverged."""
    if record.final_loss is not None and not math.isfinite(record.final_loss):
        record = replace(record, final_loss=None)
    if record.predicted_seconds is not None and not math.isfinite(record.predicted_seconds):
        record = replace(record, predicted_seconds=None)
    return record


def _record(document: Mapping[str, Any], model: ModelSpec, clusters: Sequence[ClusterSpec]) -> RuntimeRecord:
    cluster = clusters[required(document, "cluster", int, "A record in a searcher's state")]
    record = RuntimeRecord.from_json({**document, "model": model.to_json(), "cluster": cluster.to_json()})
    return replace(record, model=model, cluster=cluster)  # shared, so that digests are computed once
