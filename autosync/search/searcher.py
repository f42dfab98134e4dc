"""The common part of all searchers: a ledger, proposals one after the other, and a state in JSON."""

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
from autosync.spec.codec import required


@final
@dataclass(frozen=True)
class Asked:
    """The arguments of a searcher. `simulator` makes one, for searchers that rank by it.

    `round_size` and `lag` are None for the searcher's own: trials of a round, and latest proposals whose answers
    are not waited for.
    """

    space: SearchSpace
    baselines: Sequence[tuple[str, Strategy]]
    seed: int
    simulator: Callable[[], Simulator]
    round_size: int | None = None
    lag: int | None = None


class LedgerSearch(ABC):
    """A searcher that proposes what it was given, the baselines, then what `_next` gives. Its ledger has what it knows.

    One that knows more adds `_own_state` to its state, and takes it from there in `_restore_own`.
    """

    name: ClassVar[str]

    def __init__(self, space: SearchSpace, baselines: Sequence[tuple[str, Strategy]], seed: int) -> None:
        self._seed = seed
        self._ledger = Ledger(space, baselines)

    def try_first(self, strategies: Sequence[Strategy]) -> None:
        """Propose these strategies of the space before all else."""
        self._ledger.given = tuple(strategies)

    def ask(self, count: int) -> list[Proposal]:
        return self._asked(count, lambda: self._ledger.claimed_baseline() or self._next())

    def baselines_left(self) -> int:
        return len(self._ledger.baselines_left())

    def ask_baselines(self, count: int) -> list[Proposal]:
        return self._asked(count, self._baseline_proposal)

    def ask_candidates(self, count: int) -> list[Proposal]:
        return self._asked(count, self._first_baseline_or_candidate)

    def tell(self, record: RuntimeRecord) -> None:
        self._ledger.tell(record)

    def pending(self) -> list[Proposal]:
        return self._ledger.pending()

    def state(self) -> dict[str, Any]:
        return self._ledger.state(self.name, self._seed, **self._own_state())

    def restore(self, state: Mapping[str, Any]) -> None:
        self._ledger = Ledger.restored(self._ledger, state, self.name, self._seed)
        self._restore_own(state)

    @abstractmethod
    def _next(self) -> Proposal | None:
        """The next proposal, claimed; None while it depends on answers that are not in, or with the space used up."""

    def _candidate(self) -> Proposal | None:
        """The next proposal that is no baseline, claimed; None as for `_next`."""
        return self._next()

    def _baseline_proposal(self) -> Proposal | None:
        """The next baseline, claimed; None if none is left."""
        return self._ledger.claimed_baseline()

    def _first_baseline_or_candidate(self) -> Proposal | None:
        is_early = self._ledger.proposals < FIRST_BASELINES + len(self._ledger.given)
        return (self._baseline_proposal() if is_early else None) or self._candidate()

    def _own_state(self) -> dict[str, Any]:
        return {}

    def _restore_own(self, state: Mapping[str, Any]) -> None:
        del state

    def _asked(self, count: int, following: Callable[[], Proposal | None]) -> list[Proposal]:
        """Up to `count` proposals, as many as `following` gives."""
        proposals: list[Proposal] = []
        while len(proposals) < count and (proposal := self._ledger.claimed_given() or following()):
            proposals.append(proposal)
        return proposals


class RoundSearch(LedgerSearch):
    """A searcher that proposes in rounds of what `_picked` gives. A round begins when all before it is answered."""

    def __init__(self, space: SearchSpace, baselines: Sequence[tuple[str, Strategy]], seed: int) -> None:
        super().__init__(space, baselines, seed)
        self._queue: deque[Proposal] = deque()

    @abstractmethod
    def _picked(self) -> list[Proposal]:
        """The proposals of a new round; none when the space is used up."""

    def _next(self) -> Proposal | None:
        """The next proposal of this round, or of a new one; None while one is under way, or with the space used up."""
        while True:
            while self._queue:
                proposal = self._queue.popleft()
                if self._ledger.is_new(proposal.strategy):
                    self._ledger.drawn += proposal.purpose != "baseline"
                    return self._ledger.claim(proposal)
            if self._ledger.pending():
                return None
            self._queue.extend(self._picked())
            if not self._queue:
                return None

    def _candidate(self) -> Proposal | None:
        """The next proposal of this round, or of a new one, that is no baseline; those put off stay in the ledger."""
        if not self._queue and not self._ledger.pending():
            self._queue.extend(self._picked())
        is_open = self._ledger.is_new_and_no_baseline
        self._queue = deque(proposal for proposal in self._queue if is_open(proposal.strategy))
        return self._next() if self._queue else None

    def _own_state(self) -> dict[str, Any]:
        return {"queue": [each.to_json() for each in self._queue]}

    def _restore_own(self, state: Mapping[str, Any]) -> None:
        self._queue = deque(Proposal.from_json(each) for each in required(state, "queue", list, STATE))
