"""The finals: times the best candidates and baselines again in turns until the verdict is decided, and then measures
the worth of the winner's decisions.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from autosync.baselines.nearest import nearest_baseline
from autosync.errors import NodesLostError, TrialError
from autosync.runs import REVERTED, strategy_name
from autosync.search.verdict.counterfactuals import Worth, counterfactuals, worth_of
from autosync.search.verdict.judging import Verdict, interleave, judge, losers, with_default
from autosync.search.verdict.looks import Looks
from autosync.spec import RuntimeRecord
from autosync.stats.paired import ERROR, LEAST_ROUNDS
from autosync.tune.budget import fitting
from autosync.tune.events import report_turn
from autosync.tune.finalists import again, fastest_of, seconds_of_turn
from autosync.tune.job import Job
from autosync.words.quantities import count_of
from trials.trial import TrialRequest

ATTEMPTS = 4
"""The maximum number of attempts at a finalist's turn, which runs again if it is lost with a worker or a node."""

PRECISE = 1.25
"""The ratio of an interval's ends up to which a decided verdict is precise enough, so that no further round runs."""

Rounds = list[list[RuntimeRecord]]


def take_turns(
    requests: Sequence[TrialRequest],
    rounds: int,
    run_trial: Callable[[TrialRequest], RuntimeRecord],
    keep: Callable[[RuntimeRecord], object],
    out_of_time: Callable[[], bool] = lambda: False,
) -> Rounds:
    """Run the requests in turns for `rounds` rounds; begin no round once `out_of_time`. Return the records by round."""
    turns: Rounds = []
    for turn, request in interleave(requests, rounds):
        if turn == len(turns):
            if out_of_time():
                break
            turns.append([])
        for _ in range(ATTEMPTS):
            record = run_trial(request)
            keep(record)
            if record.outcome != "lost":
                break
        turns[turn].append(record)
    return turns


def hold_finals(
    job: Job, chosen: Sequence[RuntimeRecord], baselines: Collection[str], defaults: Collection[str] = ()
) -> tuple[Rounds, Verdict]:
    """Run the finals; return all rounds and the verdict, which also compares the winner with the fastest of `defaults`.

    `chosen` are the finalists' trials; `baselines` and `defaults` are digests. Raises `TrialError` if no baseline
    succeeded, or if trials can no longer run before there is an interval.
    """
    contest = _Contest.among(job, chosen, baselines)
    verdict = contest.decide()
    return contest.rounds, with_default(verdict, contest.rounds, defaults)


@dataclass
class _Contest:
    """Running finals: the finalists that still take turns, and the rounds so far.

    All finalists take part in the requested rounds, unless they have surely lost at an earlier look. If the verdict is
    still open then, the best candidate and the best baseline continue alone, up to the last look.
    """

    job: Job
    chosen: Sequence[RuntimeRecord]
    baselines: Collection[str]
    active: list[RuntimeRecord]
    looks: Looks
    rounds: Rounds = field(default_factory=list)

    @classmethod
    def among(cls, job: Job, chosen: Sequence[RuntimeRecord], baselines: Collection[str]) -> "_Contest":
        rounds = job.options.rounds
        kept = fitting(chosen, rounds, job.seconds_left)
        left_out = [record for record in chosen if record not in kept]
        finalists, times = count_of(len(kept), "finalist"), count_of(rounds, "round")
        job.observer.say(f"Re-measuring the {finalists} in turns, for up to {times} ...")
        if left_out:
            names = (strategy_name(record.label, record.strategy.digest, record.purpose) for record in left_out)
            job.observer.say(f"The time budget has no room to re-measure {', '.join(names)}.")
        return cls(job, kept, baselines, kept, Looks(rounds))

    def decide(self) -> Verdict:
        """Run rounds until a look decides, the last look is taken, or time or trials have run out."""
        while True:
            trouble = self._next_round()
            done = len(self.rounds)
            if self._is_short_of_time():
                self.active = self._best_two(judge(self.rounds, self.baselines))
            is_out_of_time = self._seconds_of_round() > self.job.seconds_left
            error = self.looks.error(done, is_last=bool(trouble) or is_out_of_time)
            if error is None and done != self.looks.rounds:
                continue
            verdict = judge(self.rounds, self.baselines, error or ERROR)
            if trouble:
                return _add_note(verdict, trouble)
            if self._is_over(verdict, done):
                return verdict
            if is_out_of_time:
                why = "More rounds of these two might settle it, but the time budget has no room for them."
                return _add_note(verdict, why) if verdict.is_promising else verdict
            if done == self.looks.rounds:
                self._announce(verdict, self.looks.most - done)
            self.active = (
                self._best_two(verdict) if done >= self.looks.rounds else self._still_open(verdict, error or ERROR)
            )

    def _next_round(self) -> str:
        """Run one more round; return "", or why it could not run. Raises `TrialError` if there are too few rounds to
        judge.
        """
        job = self.job
        fastest = fastest_of(self.chosen)
        requests = [again(record, fastest_seconds=fastest) for record in self.active]
        try:
            self.rounds += take_turns(requests, 1, job.backend.run, partial(report_turn, job))
        except TrialError as error:
            gives_up = isinstance(error, NodesLostError) and job.options.on_node_loss == "shrink"
            if gives_up or len(self.rounds) < LEAST_ROUNDS:
                raise
            return str(error)
        return ""

    def _is_over(self, verdict: Verdict, done: int) -> bool:
        if done == self.looks.most:
            return True
        if done >= self.looks.rounds:
            return not verdict.is_promising
        if not (verdict.beyond_noise or verdict.is_lost):
            return False
        return verdict.interval is None or verdict.interval[1] <= PRECISE * verdict.interval[0]

    def _best_two(self, verdict: Verdict) -> list[RuntimeRecord]:
        """The best candidate and the best baseline, or only one of them if the other could not be timed."""
        return [record for record in self.active if record.strategy in (verdict.candidate, verdict.baseline)]

    def _still_open(self, verdict: Verdict, error: float) -> list[RuntimeRecord]:
        """The finalists that have not surely lost; candidates are also compared with the best baseline."""
        names = [record.strategy.digest for record in self.active]
        baselines = [name for name in names if name in self.baselines]
        candidates = [name for name in names if name not in self.baselines] + [verdict.baseline.digest]
        lost = frozenset[str]().union(
            *(losers(self.rounds, kind, error, len(self.chosen)) for kind in (candidates, baselines))
        )
        pair = self._best_two(verdict)
        return [record for record in self.active if record.strategy.digest not in lost or record in pair]

    def _announce(self, verdict: Verdict, more: int) -> None:
        self.job.observer.say(
            f"The best candidate seems {verdict.speedup:.2f} x as fast as {verdict.baseline_label}, but this may be "
            f"noise: re-measuring these two for up to {count_of(more, 'more round')} ..."
        )

    def _is_short_of_time(self) -> bool:
        """Whether the remaining time is too short for all active finalists up to the first look, or after it up to
        `rounds`.
        """
        done, asked = len(self.rounds), self.looks.rounds
        if len(self.active) <= 2 or done >= asked:
            return False
        every, pair = self._seconds_of_round(), 2 * self._seconds_of_round() / len(self.active)
        until_look = LEAST_ROUNDS - done
        needed = until_look * every + (asked - LEAST_ROUNDS) * pair if until_look > 0 else (asked - done) * every
        return needed > self.job.seconds_left

    def _seconds_of_round(self) -> float:
        """Seconds of another round, estimated from the latest turns of the active finalists."""
        latest = {record.strategy.digest: record.total_seconds for turn in self.rounds for record in turn}
        fastest = fastest_of(self.chosen)
        return sum(latest.get(record.strategy.digest, seconds_of_turn(record, fastest)) for record in self.active)


def _add_note(verdict: Verdict, sentence: str) -> Verdict:
    return replace(verdict, note=f"{verdict.note} {sentence}".strip())


def measure_worths(job: Job, winner: RuntimeRecord) -> list[Worth]:
    """Measure the worth of those of the winner's decisions that most likely matter; an empty list if the winner is a
    baseline, or if DistributedDataParallel carries it out.

    There are as many rounds as requested for the finals, or fewer if the time budget ends. Raises `TrialError` if
    trials can no longer run.
    """
    model, cluster, options = job.backend.model, job.backend.cluster, job.options
    if winner.strategy.ddp is not None:
        return []
    nearest = nearest_baseline(winner.strategy, model, cluster)
    chosen = counterfactuals(model, cluster, winner.strategy, nearest.strategy, options.counterfactuals)
    if not chosen:
        return []
    job.observer.say(
        f"Timing the winner with {count_of(len(chosen), 'decision')} reverted, one at a time, for "
        f"{count_of(options.rounds, 'round')} ..."
    )
    requests = [again(winner, f"{REVERTED}nothing")]
    requests += [again(winner, f"{REVERTED}{change.label}", change.strategy) for change in chosen]
    seconds_a_round = len(requests) * seconds_of_turn(winner)
    rounds = take_turns(
        requests,
        options.rounds,
        job.backend.run,
        partial(report_turn, job),
        lambda: seconds_a_round > job.seconds_left,
    )
    return [worth_of(change, winner.strategy, rounds) for change in chosen]
