"""The campaign: requests go out, records come in, and each is on disk before the next request leaves."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, final

from autosync.errors import SpecError, TrialError
from autosync.search.protocol import FIRST_BASELINES, Proposal, Searcher, Weighing, ask_for, ask_within
from autosync.spec import RuntimeRecord, Strategy, TimingProtocol, cut
from autosync.tune.patience import Patience
from autosync.tune.yardstick import best_now, best_when
from trials.trial import TrialRequest

MOST_LOST = 3
"""Trials without a record after which a search gives up."""

MOST_LOSSES = 5
"""Losses of one strategy after which it has failed. One node that leaves may cost two: the trial it leaves in, and the
next, which begins before Ray has missed the node."""


def restore(searcher: Searcher, state: dict[str, Any]) -> None:
    """Set `searcher` to where it stood, by `state`, which was on disk and may say anything. Raises `SpecError`."""
    try:
        searcher.restore(state)
    except SpecError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise SpecError(
            f"A searcher goes on from the state that it saved, but this is none ({cut(repr(error))}); start anew."
        ) from error


class Keeper(Protocol):
    """Keeps records for good, and where the searcher stands."""

    def append(self, record: RuntimeRecord) -> None: ...

    def save_state(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class Limits:
    """Limits of a search, which ends after `trials` in all, out of `patience`, or once `out_of_time` says that there is
    no time for that number of trials more (0: for another one).

    `affordable` shortens the protocol of a trial whose steps are expected to take the given seconds, None if unknown.
    """

    trials: int
    out_of_time: Callable[[int], bool] = lambda _: False
    patience: Patience = field(default_factory=Patience)
    affordable: Callable[[TimingProtocol, float | None], TimingProtocol] = lambda protocol, _: protocol


@final
class Campaign:
    """One search from its first request to its last record, with any back end for its trials."""

    def __init__(
        self,
        searcher: Searcher,
        keeper: Keeper,
        protocol: TimingProtocol,
        run: str,
        seed: int,
        limits: Limits,
        watchers: tuple[Callable[[RuntimeRecord], None], ...] = (),
    ) -> None:
        """Every one of `watchers` is called with a record once it is stored and the searcher knows it."""
        self.searcher = searcher
        self.records: list[RuntimeRecord] = []
        """Records of trials, each with its number in `sequence`; those lost with a worker or a node are not
        among them, and are run again.
        """
        self._keeper = keeper
        self._protocol = protocol
        self._run = run
        self._seed = seed
        self._limits = limits
        self._watchers = watchers
        self._unfinished = searcher.pending()
        self._earlier = 0
        self._out = 0
        self._is_used_up = False
        self._lost = 0
        self._losses: Counter[str] = Counter()

    def restore(self, state: dict[str, Any]) -> None:
        """Set the searcher to where it stood; what was under way then is asked for first. Raises `SpecError`."""
        restore(self.searcher, state)
        self._unfinished = self.searcher.pending()

    def take_up(self, records: list[RuntimeRecord]) -> None:
        """Go on from the records of an earlier process of this run."""
        for record in records:
            if record.outcome == "lost":
                self._losses[record.strategy.digest] += 1
            else:
                self.searcher.tell(record)
                self.records.append(record)
        self._earlier = len(self.records)
        self._unfinished = self.searcher.pending()

    @property
    def is_over(self) -> bool:
        """Whether no further trial is to be begun. One that is lost makes room for another."""
        return self.stopped_because is not None

    @property
    def stopped_because(self) -> str | None:
        """Why the search is over, in one sentence; None while further trials are to be begun."""
        if len(self.records) + self._out >= self._limits.trials:
            one, trials = self._limits.trials == 1, self._limits.trials
            return "The one trial has run." if one else f"All {trials} trials have run."
        if self._is_used_up:
            return "The space is used up: every strategy in it was timed."
        if self._limits.out_of_time(0):
            return "The time budget is reached; the rest of it is for measuring the finalists again."
        return None if self._baselines_left else self._out_of_patience()

    def _timed(self, purpose: str) -> tuple[list[RuntimeRecord], list[RuntimeRecord]]:
        """Records that a trial with this purpose is compared with: of earlier processes of the run, and of this one.

        A baseline is compared with baselines alone: the best of them is timed to its end, however slow.
        """
        earlier, now = self.records[: self._earlier], self.records[self._earlier :]
        if purpose != "baseline":
            return earlier, now
        names = {each.strategy.digest for each in self.records if each.purpose == "baseline"}
        own, own_now = ([each for each in part if each.strategy.digest in names] for part in (earlier, now))
        return own, own_now

    def next_request(self) -> TrialRequest | None:
        """The next trial to run; None when the search is over, or while it depends on those under way."""
        if self.is_over:
            return None
        proposals = self._unfinished[:1] or self._proposed()
        del self._unfinished[:1]
        if not proposals:
            self._is_used_up = not self.searcher.pending()
            return None
        self._out += 1
        self._keeper.save_state(self.searcher.state())
        return self._request(proposals[0])

    def _proposed(self) -> list[Proposal]:
        """Ask for one proposal: a baseline if patience is out, or if the time left is for these alone.

        Before baselines get that time, candidates get as many trials as baselines after the first ones.
        """
        baselines, limits = self._baselines_left, self._limits
        if baselines and self._out_of_patience():
            return ask_for(self.searcher, is_candidate=False)
        if baselines and limits.out_of_time(baselines + 1):
            purposes = Counter(record.purpose for record in self.records)
            purposes.update(proposal.purpose for proposal in self.searcher.pending())
            is_candidate = purposes["search"] <= purposes["baseline"] - FIRST_BASELINES
            return ask_for(self.searcher, is_candidate or purposes["baseline"] < FIRST_BASELINES)
        return ask_within(self.searcher, limits.trials - len(self.records) - self._out)

    def _out_of_patience(self) -> str | None:
        """Why patience is out, in one sentence. Baselines that are timed because it is out do not bring it back."""
        last = max((number for number, each in enumerate(self.records) if each.purpose != "baseline"), default=-1)
        return self._limits.patience.why_end(self.records[: last + 1] or self.records, self.searcher)

    @property
    def _baselines_left(self) -> int:
        """The number of baselines that the searcher keeps for later."""
        return self.searcher.baselines_left() if isinstance(self.searcher, Weighing) else 0

    def finish(self, record: RuntimeRecord) -> None:
        """Keep the record of a request, tell the searcher, and then everyone who watches."""
        record = self._judged(record)
        if record.outcome != "lost":
            record = replace(record, sequence=len(self.records))
        self._keeper.append(record)
        self._out -= 1
        if record.outcome == "lost":
            self._ask_again(record.strategy)
        else:
            self.records.append(record)
            self.searcher.tell(record)
        self._keeper.save_state(self.searcher.state())
        for watcher in self._watchers:
            watcher(record)

    def lose(self, request: TrialRequest) -> None:
        """Note that a request brought no record, because what should have run it broke; it is asked for again."""
        self._out -= 1
        self._lost += 1
        if self._lost > MOST_LOST:
            raise TrialError(
                f"{self._lost} trials brought no record because the processes that run them broke; see Ray's logs."
            )
        self._ask_again(request.strategy)

    def _ask_again(self, strategy: Strategy) -> None:
        self._unfinished += [each for each in self.searcher.pending() if each.strategy == strategy]

    def _judged(self, record: RuntimeRecord) -> RuntimeRecord:
        """The record; a strategy that is lost time and again has failed, since it may be what ends the workers."""
        if record.outcome != "lost":
            return record
        self._losses[record.strategy.digest] += 1
        losses = self._losses[record.strategy.digest]
        if losses < MOST_LOSSES:
            return record
        return replace(record, outcome="failed", reason=f"It was lost {losses} times; the last time: {record.reason}")

    def run(self, run_trial: Callable[[TrialRequest], RuntimeRecord]) -> None:
        """Run the whole campaign, one trial after the other, over any callable."""
        while (request := self.next_request()) is not None:
            self.finish(run_trial(request))

    def state(self) -> dict[str, Any]:
        return self.searcher.state()

    def _request(self, proposal: Proposal) -> TrialRequest:
        timed = self._timed(proposal.purpose)
        expected = best_now(self.records[: self._earlier], self.records[self._earlier :]) or proposal.predicted_seconds
        return TrialRequest(
            strategy=proposal.strategy,
            protocol=self._limits.affordable(self._protocol, expected),
            purpose=proposal.purpose,
            label=proposal.label,
            run=self._run,
            seed=self._seed,
            best_median_seconds=best_now(*timed),
            best_when=best_when(*timed),
            predicted_seconds=proposal.predicted_seconds,
        )
