"""Runs a search on any back end: sends requests, receives records, and stores each record before the next request."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, final

from autosync.errors import SpecError, TrialError
from autosync.search.protocol import FIRST_BASELINES, Proposal, Searcher, Weighing, ask_for, ask_within
from autosync.spec import RuntimeRecord, Strategy, TimingProtocol, cut
from autosync.tune.patience import Patience
from autosync.tune.stop_threshold import best_now, best_when
from trials.trial import TrialRequest

MOST_LOST = 3
"""Trials without a record after which a search gives up."""

MOST_LOSSES = 5
"""Losses of one strategy after which its trial counts as failed. A leaving node may cost two losses: the trial that
runs when the node leaves, and the next trial, which begins before Ray has noticed the loss."""


def restore(searcher: Searcher, state: dict[str, Any]) -> None:
    """Restore `searcher` from `state`, which was read from disk and may be damaged. Raises `SpecError`."""
    try:
        searcher.restore(state)
    except SpecError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise SpecError(
            f"A searcher needs the state that it saved, but this is none ({cut(repr(error))}); start a new run."
        ) from error


class Keeper(Protocol):
    """Stores records permanently, and the searcher's latest state."""

    def append(self, record: RuntimeRecord) -> None: ...

    def save_state(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class SearchLimits:
    """The limits that end a search: trials, time and patience."""

    trials: int
    """The number of trials, earlier processes of the run included."""

    out_of_time: Callable[[int], bool] = lambda _: False
    """Returns whether there is no time for N more trials; 0 asks about one more trial."""

    patience: Patience = field(default_factory=Patience)

    affordable: Callable[[TimingProtocol, float | None], TimingProtocol] = lambda protocol, _: protocol
    """Shortens the protocol of a trial whose steps are expected to take the given seconds, None if unknown."""


@final
class Campaign:
    """One search from its first request to its last record, on any back end."""

    def __init__(
        self,
        searcher: Searcher,
        keeper: Keeper,
        protocol: TimingProtocol,
        run: str,
        seed: int,
        limits: SearchLimits,
        watchers: tuple[Callable[[RuntimeRecord], None], ...] = (),
    ) -> None:
        """Each of `watchers` is called with a record after the record is stored and passed to the searcher."""
        self.searcher = searcher
        self.records: list[RuntimeRecord] = []
        """Records of trials, numbered by `sequence`. Trials lost with a worker or a node are left out, because they run
        again."""
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
        """Restore the searcher from `state`, and queue the trials that were pending then. Raises `SpecError`."""
        restore(self.searcher, state)
        self._unfinished = self.searcher.pending()

    def take_up(self, records: list[RuntimeRecord]) -> None:
        """Resume from the records of an earlier process of this run."""
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
        """Whether the search begins no further trial. A lost trial makes room for another one."""
        return self.stop_reason is not None

    @property
    def stop_reason(self) -> str | None:
        """One sentence on why the search is over; None while further trials may begin."""
        if len(self.records) + self._out >= self._limits.trials:
            trials = self._limits.trials
            return "The one trial has run." if trials == 1 else f"All {trials} trials have run."
        if self._is_used_up:
            return "The search space is exhausted: every strategy in it was timed."
        if self._limits.out_of_time(0):
            return "Time budget reached; the remaining time is reserved for re-measuring the finalists."
        return None if self._baselines_left else self._out_of_patience()

    def _comparable_records(self, purpose: str) -> tuple[list[RuntimeRecord], list[RuntimeRecord]]:
        """The records with which a trial of this purpose is compared: those of earlier processes of the run, and of
        this one.

        A baseline is compared only with baselines, so that the best baseline is timed completely, however slow.
        """
        earlier, now = self.records[: self._earlier], self.records[self._earlier :]
        if purpose != "baseline":
            return earlier, now
        names = {record.strategy.digest for record in self.records if record.purpose == "baseline"}
        known, known_now = ([record for record in part if record.strategy.digest in names] for part in (earlier, now))
        return known, known_now

    def next_request(self) -> TrialRequest | None:
        """Return the next trial to run; None if the search is over, or if the next proposal needs pending results."""
        if self.is_over:
            return None
        proposals = self._unfinished[:1] or self._ask()
        del self._unfinished[:1]
        if not proposals:
            self._is_used_up = not self.searcher.pending()
            return None
        self._out += 1
        self._keeper.save_state(self.searcher.state())
        return self._request(proposals[0])

    def _ask(self) -> list[Proposal]:
        """Ask for one proposal: a baseline if patience has run out, or if the remaining time suffices only for
        baselines.

        Before baselines get all of that time, candidates get as many trials as the baselines after the first
        `FIRST_BASELINES`.
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
        """One sentence on why patience has run out, or None. Baselines that are timed after that do not restore
        patience.
        """
        last = max((number for number, record in enumerate(self.records) if record.purpose != "baseline"), default=-1)
        return self._limits.patience.why_end(self.records[: last + 1] or self.records, self.searcher)

    @property
    def _baselines_left(self) -> int:
        """The number of baselines that the searcher has reserved for later."""
        return self.searcher.baselines_left() if isinstance(self.searcher, Weighing) else 0

    def finish(self, record: RuntimeRecord) -> None:
        """Store the record of a request, pass it to the searcher, and then call the watchers."""
        record = self._fail_after_losses(record)
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
        """Record that the back end failed before the trial produced a record, and queue the strategy again."""
        self._out -= 1
        self._lost += 1
        if self._lost > MOST_LOST:
            raise TrialError(
                f"{self._lost} trials ended without a record because their processes died; see Ray's logs."
            )
        self._ask_again(request.strategy)

    def _ask_again(self, strategy: Strategy) -> None:
        self._unfinished += [proposal for proposal in self.searcher.pending() if proposal.strategy == strategy]

    def _fail_after_losses(self, record: RuntimeRecord) -> RuntimeRecord:
        """Return the record, as failed after `MOST_LOSSES` losses, because the strategy itself may be killing the
        workers.
        """
        if record.outcome != "lost":
            return record
        self._losses[record.strategy.digest] += 1
        losses = self._losses[record.strategy.digest]
        if losses < MOST_LOSSES:
            return record
        return replace(record, outcome="failed", reason=f"It was lost {losses} times; the last time: {record.reason}")

    def run(self, run_trial: Callable[[TrialRequest], RuntimeRecord]) -> None:
        """Run the whole campaign with any callable, one trial after the other."""
        while (request := self.next_request()) is not None:
            self.finish(run_trial(request))

    def state(self) -> dict[str, Any]:
        return self.searcher.state()

    def _request(self, proposal: Proposal) -> TrialRequest:
        timed = self._comparable_records(proposal.purpose)
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
