"""A searcher's ledger: the baselines not yet proposed, the pending proposals, and the records told."""

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
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy, quote
from autosync.spec.codec import read_required

FORMAT = "autosync.searcher/5"
STATE = "A searcher's state"
"""The name of a searcher's saved state in error messages."""

TRIES = 200
"""If this many draws in a row are known strategies, a big space counts as exhausted."""


@final
@dataclass(frozen=True)
class Observation:
    """A timed strategy."""

    strategy: Strategy
    median_seconds: float
    """The median over the medians of the strategy's records, in seconds per step."""
    timings: int = 1
    """The number of records."""


@final
class Ledger:
    """Prevents a second proposal of a strategy, or of one that differs only by interchangeable devices.

    The space defines the order of the replicas (and of rings); a strategy in another order is the same proposal.

    Proposals are numbered in the order made. Records are filed under the number of the proposal they answer, so all
    reads are independent of the order of arrival. `drawn` counts the proposals that were not baselines.
    """

    def __init__(self, space: SearchSpace, baselines: Sequence[tuple[str, Strategy]]) -> None:
        self.space = space
        self.given: Sequence[Strategy] = ()
        """The strategies to propose before all others."""
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
        """The number of proposals so far."""
        return len(self._answers)

    def baselines_left(self) -> list[Proposal]:
        """Return the new baselines in the order passed, not yet claimed; of equivalent baselines, only the first."""
        return [self._proposal_of(place) for standard, place in self._standards.items() if standard not in self._seen]

    def matching_baseline(self, strategy: Strategy) -> Proposal | None:
        """Return the baseline that makes the same decisions as `strategy`, if it is new."""
        standard = self._standard(strategy)
        known = standard in self._standards and standard not in self._seen
        return self._proposal_of(self._standards[standard]) if known else None

    def claim_given(self) -> Proposal | None:
        """Claim the user's next new strategy, under its own name if it is a baseline."""
        strategy = next((strategy for strategy in self.given if self.is_new(strategy)), None)
        return None if strategy is None else self.claim(self.matching_baseline(strategy) or Proposal(strategy, GIVEN))

    def claim_baseline(self) -> Proposal | None:
        """Claim the next baseline, if one is left."""
        left = self.baselines_left()
        return self.claim(left[0]) if left else None

    def is_new(self, strategy: Strategy) -> bool:
        """Whether neither the strategy nor an equivalent one was proposed or told."""
        return self._standard(strategy) not in self._seen

    def is_new_and_no_baseline(self, strategy: Strategy) -> bool:
        """Whether the strategy is new and equivalent to no baseline."""
        standard = self._standard(strategy)
        return standard not in self._seen and standard not in self._standards

    def claim(self, proposal: Proposal) -> Proposal:
        """Mark the proposal as pending and return it. A strategy can have only one pending proposal."""
        assert proposal.strategy.digest not in self._pending, "the strategy is already pending"
        self._seen.add(self._standard(proposal.strategy))
        self._pending[proposal.strategy.digest] = len(self._answers), proposal
        self._answers.append(None)
        return proposal

    def claim_drawn(self, strategy: Strategy | None, label: str) -> Proposal | None:
        """Claim the strategy that a searcher has drawn; None if `strategy` is None."""
        if strategy is None:
            return None
        self.drawn += 1
        return self.claim(Proposal(strategy, label))

    def sample_new(self, rng: random.Random) -> Strategy | None:
        """Sample a new strategy from the space; None if none is left."""
        return self.fresh(lambda: self.space.sample(rng), rng)

    def fresh(self, draw: Callable[[], Strategy], rng: random.Random) -> Strategy | None:
        """Return the first new strategy from `draw`.

        If all draws are known, return one of the remaining strategies of a small space; None if none is left.
        """
        left = self.left()
        if left is not None and not left:
            return None
        for _ in range(TRIES):
            strategy = draw()
            if self.is_new(strategy):
                return strategy
        return rng.choice(left) if left else None

    def pending(self) -> list[Proposal]:
        """Return the proposals without an answer, in the order made."""
        return [proposal for _, proposal in self._pending.values()]

    def horizon(self, lag: int = 0) -> int | None:
        """Return how many proposals the next one may depend on: all except the last `lag`; None while one of these is
        pending.

        A choice that reads only `records(horizon)` and `observations(horizon)` is independent of the order in which
        records arrive, and of the number of trials that run at once.
        """
        known = max(0, len(self._answers) - lag)
        return None if any(number < known for number, _ in self._pending.values()) else known

    def tell(self, record: RuntimeRecord) -> None:
        """Store `record`, unless it is already known or belongs to another model or cluster."""
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
        """Return the unsolicited records in the order told, then the answers to the first `before` proposals (None:
        all).
        """
        answers = [index for index in self._answers[:before] if index is not None]
        return [self._told[index] for index in (*self._unasked, *answers)]

    def observations(self, before: int | None = None) -> list[Observation]:
        """Return every timed strategy, in the order of `records`."""
        medians: dict[str, list[float]] = {}
        strategies: dict[str, Strategy] = {}
        for record in self.records(before):
            if record.median_seconds is not None:
                strategies.setdefault(record.strategy.digest, record.strategy)
                medians.setdefault(record.strategy.digest, []).append(record.median_seconds)
        return [
            Observation(strategies[name], statistics.median(values), len(values)) for name, values in medians.items()
        ]

    def strategies_after(self, after: int) -> list[Strategy]:
        """Return the strategies of all proposals after the first `after`, in the order made, answered or not."""
        pending = {number: proposal.strategy for number, proposal in self._pending.values()}
        latest = list(enumerate(self._answers))[after:]
        return [pending[number] if index is None else self._told[index].strategy for number, index in latest]

    def left(self) -> list[Strategy] | None:
        """Return the new strategies of a small space; None if the space is too big to enumerate."""
        if self.space.size is None:
            return None
        return [strategy for strategy in self.space.enumerate() if strategy not in self._seen]

    def state(self, searcher: str, seed: int, **more: Any) -> dict[str, Any]:
        """Return the ledger and the searcher's `more` as plain JSON values. The values share parts with the ledger."""
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
    def restore(cls, fresh: Ledger, state: Mapping[str, Any], searcher: str, seed: int) -> Ledger:
        """Return the ledger that saved `state`, with the arguments of `fresh`. Raises `SpecError` if they differ."""
        mine = {"format": FORMAT, "searcher": searcher, "seed": seed, "space": fresh._space_name()}
        for name, value in mine.items():
            if state.get(name) != value:
                raise SpecError(
                    f"{STATE} can only be restored by the searcher that saved it: its {name} is "
                    f"{quote(state.get(name))}, this searcher's is {value!r}. Pass the same arguments, or start a new "
                    "search."
                )
        ledger = cls(fresh.space, fresh._baselines)
        ledger.given = fresh.given
        clusters = [ClusterSpec.from_json(document) for document in read_required(state, "clusters", list, STATE)]
        for document in read_required(state, "records", list, STATE):
            ledger._keep(_record(document, fresh.space.model, clusters))
        indices = range(len(ledger._told))
        ledger._answers = list(read_required(state, "answers", list, STATE))
        if not all(answer is None or (type(answer) is int and answer in indices) for answer in ledger._answers):
            raise SpecError(f"{STATE} needs answers that are numbers of its {len(indices)} records or null.")
        solicited = set(ledger._answers)
        ledger._unasked = [number for number in indices if number not in solicited]
        for number, document in read_required(state, "pending", list, STATE):
            proposal = Proposal.from_json(document)
            ledger._seen.add(ledger._standard(proposal.strategy))
            ledger._pending[proposal.strategy.digest] = number, proposal
        ledger.drawn = read_required(state, "drawn", int, STATE)
        return ledger

    def _keep(self, record: RuntimeRecord) -> None:
        """Store the record and its JSON for `state`: without the model, which is the space's, and with each cluster
        only once.
        """
        self._keys.add(_key(record))
        self._seen.add(self._standard(record.strategy))
        self._told.append(record)
        cluster = record.cluster.to_json()
        if cluster not in self._clusters:
            self._clusters.append(cluster)
        document = record.to_json() | {"cluster": self._clusters.index(cluster)}
        del document["model"]
        self._documents.append(document)

    def _proposal_of(self, place: int) -> Proposal:
        label, strategy = self._baselines[place]
        return Proposal(strategy, label, purpose="baseline")

    @cached_property
    def _standards(self) -> dict[Strategy, int]:
        """Index of the first equivalent baseline, by the canonical strategy of such baselines."""
        places: dict[Strategy, int] = {}
        for place, (_, strategy) in enumerate(self._baselines):
            places.setdefault(self._standard(strategy), place)
        return places

    def _standard(self, strategy: Strategy) -> Strategy:
        """Return the canonical strategy of all equivalent strategies. Equal canonical strategies are one proposal."""
        space = self.space
        names = [variable.name for variable in space.model.variables]
        if [decision.variable for decision in strategy.variables] != names and set(names) == set(strategy.by_name):
            strategy = replace(strategy, variables=tuple(strategy.by_name[name] for name in names))
        if strategy.replicas != space.replicas and set(strategy.replicas) == set(space.replicas):
            strategy = replace(strategy, replicas=space.replicas)
        return space.canonical(strategy)

    def _space_name(self) -> str:
        return f"{self.space.name} of model {self.space.model.digest} on cluster {self.space.cluster.digest}"


def _key(record: RuntimeRecord) -> tuple[object, ...]:
    """The fields that identify a record."""
    trial = (record.run, record.purpose, record.label, record.seed, record.started_at)
    return (record.strategy.digest, record.outcome, *trial, *record.step_seconds)


def _plain(record: RuntimeRecord) -> RuntimeRecord:
    """Return the record without numbers that JSON cannot represent, such as the loss of a trial that diverged."""
    if record.final_loss is not None and not math.isfinite(record.final_loss):
        record = replace(record, final_loss=None)
    if record.predicted_seconds is not None and not math.isfinite(record.predicted_seconds):
        record = replace(record, predicted_seconds=None)
    return record


def _record(document: Mapping[str, Any], model: ModelSpec, clusters: Sequence[ClusterSpec]) -> RuntimeRecord:
    cluster = clusters[read_required(document, "cluster", int, "A record in a searcher's state")]
    record = RuntimeRecord.from_json({**document, "model": model.to_json(), "cluster": cluster.to_json()})
    return replace(record, model=model, cluster=cluster)  # shared, so that digests are computed once
