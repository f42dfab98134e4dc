"""The finals: the best candidates and baselines timed again in turns until the verdict is decided, and the worths of
the winner's decisions.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from autosync.baselines.nearest import nearest_baseline
from autosync.errors import NodesLostError, TrialError
from autosync.runs import REVERTED
from autosync.search.verdict.counterfactuals import Worth, counterfactuals, worth_of
from autosync.search.verdict.judging import Verdict, beaten, interleaved, judge, with_default
from autosync.search.verdict.looks import Looks
from autosync.spec import RuntimeRecord
from autosync.stats.paired import ERROR, LEAST_ROUNDS
from autosync.tune.budget import fitting
from autosync.tune.finalists import again, fastest_of, seconds_of_turn
from autosync.tune.job import Job
from autosync.words.quantities import counted
from trials.trial import TrialRequest

ATTEMPTS = 4
"""The most attempts at a finalist's turn, which is run again when it is lost with a worker or a node."""

PRECISE = 1.25
"""The ends' ratio of an interval from which on a decided verdict takes no more rounds than it was decided by."""

Rounds = list[list[RuntimeRecord]]


def take_turns(
    requests: Sequence[TrialRequest],
    rounds: int,
    run_trial: Callable[[TrialRequest], RuntimeRecord],
    keep: Callable[[RuntimeRecord], object],
    out_of_time: Callable[[], bool] = lambda: False,
) -> Rounds:
    """Run the requests `rounds` times in turns, and no round that begins `out_of_time`; return the records by round."""
    turns: Rounds = []
    for turn, request in interleaved(requests, rounds):
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
    """All rounds, and the verdict, with the winner compared with the fastest of `defaults` that was among them.

    `chosen` are the finalists' trials, `baselines` and `defaults` digests. Raises `TrialError` when no trial can be run
    any more before there is an interval, or no baseline succeeded.
    """
    contest = _Contest.among(job, chosen, baselines)
    verdict = contest.decided()
    return contest.rounds, with_default(verdict, contest.rounds, defaults)


@dataclass
class _Contest:
    """Finals under way: the finalists that still take turns, and the rounds so far.

    All take part in the rounds that were asked for, unless they have surely lost at an earlier look. The best candidate
    and the best baseline go on alone after that while the verdict is open, up to the last look.
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
        finalists, times = counted(len(kept), "finalist"), counted(rounds, "time")
        job.console.print(f"Measuring the {finalists} again, up to {times} in turns ...")
        if left_out:
            names = ", ".join(record.label for record in left_out)
            job.console.print(f"The time budget has no room for {names}.", soft_wrap=True)
        return cls(job, kept, baselines, kept, Looks(rounds))

    def decided(self) -> Verdict:
        """Run rounds until a look decides, the last look was taken, or time or trials have run out."""
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
                return _noted(verdict, trouble)
            if self._is_over(verdict, done):
                return verdict
            if is_out_of_time:
                why = "More rounds of these two would tell; the time budget has no room for them."
                return _noted(verdict, why) if verdict.is_promising else verdict
            if done == self.looks.rounds:
                self._announce(verdict, self.looks.most - done)
            self.active = (
                self._best_two(verdict) if done >= self.looks.rounds else self._still_open(verdict, error or ERROR)
            )

    def _next_round(self) -> str:
        """Run one more round, and return why there is none, or "". Raises `TrialError` without rounds to judge by."""
        job = self.job
        fastest = fastest_of(self.chosen)
        requests = [again(record, fastest_seconds=fastest) for record in self.active]
        try:
            self.rounds += take_turns(requests, 1, job.backend.run, job.append)
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
        """The best candidate and the best baseline; one of them where the other could not be timed."""
        return [record for record in self.active if record.strategy in (verdict.candidate, verdict.baseline)]

    def _still_open(self, verdict: Verdict, error: float) -> list[RuntimeRecord]:
        """The finalists that have not surely lost, candidates against the best baseline too."""
        names = [record.strategy.digest for record in self.active]
        baselines = [name for name in names if name in self.baselines]
        candidates = [name for name in names if name not in self.baselines] + [verdict.baseline.digest]
        lost = frozenset[str]().union(
            *(beaten(self.rounds, kind, error, len(self.chosen)) for kind in (candidates, baselines))
        )
        pair = self._best_two(verdict)
        return [record for record in self.active if record.strategy.digest not in lost or record in pair]

    def _announce(self, verdict: Verdict, more: int) -> None:
        self.job.console.print(
            f"The best found seems {verdict.speedup:.2f} x as fast as {verdict.baseline_label}, which may be noise: "
            f"measuring these two up to {counted(more, 'time')} more ...",
            soft_wrap=True,
        )

    def _is_short_of_time(self) -> bool:
        """Whether there is no time for the first look at all that take part, or after it for the rounds asked for."""
        done, asked = len(self.rounds), self.looks.rounds
        if len(self.active) <= 2 or done >= asked:
            return False
        every, pair = self._seconds_of_round(), 2 * self._seconds_of_round() / len(self.active)
        until_look = LEAST_ROUNDS - done
        needed = until_look * every + (asked - LEAST_ROUNDS) * pair if until_look > 0 else (asked - done) * every
        return needed > self.job.seconds_left

    def _seconds_of_round(self) -> float:
        """Seconds of another round, by the latest turns of those that take part."""
        latest = {record.strategy.digest: record.total_seconds for turn in self.rounds for record in turn}
        fastest = fastest_of(self.chosen)
        return sum(latest.get(record.strategy.digest, seconds_of_turn(record, fastest)) for record in self.active)


def _noted(verdict: Verdict, sentence: str) -> Verdict:
    return replace(verdict, note=f"{verdict.note} {sentence}".strip())


def measure_worths(job: Job, winner: RuntimeRecord) -> list[Worth]:
    """The worths of those decisions of `winner`'s strategy that most likely matter; none for a baseline itself.

    There are as many rounds as were asked for of the finals, or fewer when the time budget ends. Raises `TrialError`
    when no trial can be run any more.
    """
    model, cluster, options = job.backend.model, job.backend.cluster, job.options
    nearest = nearest_baseline(winner.strategy, model, cluster)
    chosen = counterfactuals(model, cluster, winner.strategy, nearest.strategy, options.counterfactuals)
    if not chosen:
        return []
    job.console.print(
        f"Reverting {len(chosen)} of the winner's decisions, each by itself, {counted(options.rounds, 'time')} ..."
    )
    requests = [again(winner, f"{REVERTED}nothing")]
    requests += [again(winner, f"{REVERTED}{change.label}", change.strategy) for change in chosen]
    seconds_a_round = len(requests) * seconds_of_turn(winner)
    rounds = take_turns(
        requests, options.rounds, job.backend.run, job.append, lambda: seconds_a_round > job.seconds_left
    )
    return [worth_of(change, winner.strategy, rounds) for change in chosen]
