"""The common part of all searchers: a ledger, one proposal after the other, and a state in JSON."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

from autosync.cost import Simulator
from autosync.search.ledger import STATE, Ledger
from autosync.search.protocol import FIRST_BASELINES, Proposal
from autosync.space import SearchSpace
from autosync.spec import RuntimeRecord, Strategy
from autosync.spec.codec import read_required


@final
@dataclass(frozen=True)
class SearcherArguments:
    """The arguments of a searcher."""

    space: SearchSpace
    baselines: Sequence[tuple[str, Strategy]]
    seed: int
    simulator: Callable[[], Simulator]
    """Makes a simulator, for searchers that rank strategies by predictions."""
    round_size: int | None = None
    """Trials in a round; None for the searcher's default."""
    lag: int | None = None
    """The number of latest proposals whose answers the next proposal does not wait for; None for the searcher's
    default.
    """


class LedgerSearch(ABC):
    """A searcher that proposes the user's strategies, then the baselines, then strategies from `_next`.

    The ledger holds the searcher's knowledge. A subclass with more state adds it in `_extra_state` and reads it back in
    `_restore_extra`.
    """

    name: ClassVar[str]

    def __init__(self, space: SearchSpace, baselines: Sequence[tuple[str, Strategy]], seed: int) -> None:
        self._seed = seed
        self._ledger = Ledger(space, baselines)

    def try_first(self, strategies: Sequence[Strategy]) -> None:
        """Propose these strategies of the space before all others."""
        self._ledger.given = tuple(strategies)

    def ask(self, count: int) -> list[Proposal]:
        return self._collect(count, lambda: self._ledger.claim_baseline() or self._next())

    def baselines_left(self) -> int:
        return len(self._ledger.baselines_left())

    def ask_baselines(self, count: int) -> list[Proposal]:
        return self._collect(count, self._next_baseline)

    def ask_candidates(self, count: int) -> list[Proposal]:
        return self._collect(count, self._first_baseline_or_candidate)

    def tell(self, record: RuntimeRecord) -> None:
        self._ledger.tell(record)

    def pending(self) -> list[Proposal]:
        return self._ledger.pending()

    def state(self) -> dict[str, Any]:
        return self._ledger.state(self.name, self._seed, **self._extra_state())

    def restore(self, state: Mapping[str, Any]) -> None:
        self._ledger = Ledger.restore(self._ledger, state, self.name, self._seed)
        self._restore_extra(state)

    @abstractmethod
    def _next(self) -> Proposal | None:
        """Claim and return the next proposal; None while it depends on missing answers, or if the space is used up."""

    def _candidate(self) -> Proposal | None:
        """Claim and return the next proposal that is not a baseline; None as for `_next`."""
        return self._next()

    def _next_baseline(self) -> Proposal | None:
        """Claim and return the next baseline; None if no baseline is left."""
        return self._ledger.claim_baseline()

    def _first_baseline_or_candidate(self) -> Proposal | None:
        is_early = self._ledger.proposals < FIRST_BASELINES + len(self._ledger.given)
        return (self._next_baseline() if is_early else None) or self._candidate()

    def _extra_state(self) -> dict[str, Any]:
        return {}

    def _restore_extra(self, state: Mapping[str, Any]) -> None:
        del state

    def _collect(self, count: int, following: Callable[[], Proposal | None]) -> list[Proposal]:
        """Collect up to `count` proposals from `following`, until it returns None."""
        proposals: list[Proposal] = []
        while len(proposals) < count and (proposal := self._ledger.claim_given() or following()):
            proposals.append(proposal)
        return proposals


class RoundSearch(LedgerSearch):
    """A searcher that proposes in rounds from `_pick_round`. A round begins when all earlier proposals are answered."""

    def __init__(self, space: SearchSpace, baselines: Sequence[tuple[str, Strategy]], seed: int) -> None:
        super().__init__(space, baselines, seed)
        self._queue: deque[Proposal] = deque()

    @abstractmethod
    def _pick_round(self) -> list[Proposal]:
        """Return the proposals of a new round, or an empty list if the space is exhausted."""

    def _next(self) -> Proposal | None:
        """Return the next proposal of this round or of a new round.

        None while a round is unfinished, or if the space is exhausted.
        """
        while True:
            while self._queue:
                proposal = self._queue.popleft()
                if self._ledger.is_new(proposal.strategy):
                    self._ledger.drawn += proposal.purpose != "baseline"
                    return self._ledger.claim(proposal)
            if self._ledger.pending():
                return None
            self._queue.extend(self._pick_round())
            if not self._queue:
                return None

    def _candidate(self) -> Proposal | None:
        """Return the next proposal of this or a new round that is not a baseline. Postponed baselines stay in the
        ledger.
        """
        if not self._queue and not self._ledger.pending():
            self._queue.extend(self._pick_round())
        is_open = self._ledger.is_new_and_no_baseline
        self._queue = deque(proposal for proposal in self._queue if is_open(proposal.strategy))
        return self._next() if self._queue else None

    def _extra_state(self) -> dict[str, Any]:
        return {"queue": [proposal.to_json() for proposal in self._queue]}

    def _restore_extra(self, state: Mapping[str, Any]) -> None:
        self._queue = deque(Proposal.from_json(document) for document in read_required(state, "queue", list, STATE))
