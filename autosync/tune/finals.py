"""The finals: the best candidates and baselines timed again in turns, a second look, and what decisions are worth."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from autosync.baselines import FRAMEWORK_DEFAULTS
from autosync.baselines.nearest import nearest_baseline
from autosync.errors import NodesLostError, TrialError
from autosync.runs import REVERTED
from autosync.search.protocol import GIVEN
from autosync.search.verdict.counterfactuals import Worth, counterfactuals, worth_of
from autosync.search.verdict.judging import Verdict, interleaved, judge, with_default
from autosync.spec import RuntimeRecord, Strategy, TimingProtocol
from autosync.stats.accuracy import strategy_medians
from autosync.stats.paired import ERROR
from autosync.tune.job import Job
from autosync.words.quantities import counted
from trials.trial import TrialRequest

CANDIDATES = 3

BASELINES, CLOSE = 3, 1.05
"""The most baselines that are measured again, and how many times as slow as the best one they may be: that one may have
been lucky, and is what the candidates are held against."""

ATTEMPTS = 4
"""The most attempts at a finalist's turn, which is run again when it is lost with a worker or a node."""


def finalists(records: Sequence[RuntimeRecord]) -> list[RuntimeRecord]:
    """The best candidates and those given, and the best baseline with those close to it, of complete trials; fastest
    first.

    Each is its first record; how fast it is, the median over all of its records. Last comes the fastest of what
    frameworks do by default, unless it is there already, and even if its trial was stopped early.
    """
    medians = strategy_medians(records)

    def seconds(record: RuntimeRecord) -> float:
        return medians[record.strategy.digest]

    first: dict[str, RuntimeRecord] = {}
    for record in sorted(records, key=lambda each: each.purpose != "baseline"):  # found or not, a baseline is one
        if record.outcome == "ok" and record.purpose != "remeasure":
            first.setdefault(record.strategy.digest, record)
    ordered = sorted(first.values(), key=seconds)
    searched = [each for each in ordered if each.purpose == "search"]
    candidates = searched[:CANDIDATES] + [each for each in searched[CANDIDATES:] if each.label == GIVEN]
    baselines = [each for each in ordered if each.purpose == "baseline"][:BASELINES]
    close = [each for each in baselines if seconds(each) <= CLOSE * seconds(baselines[0])]
    chosen = sorted(candidates + close, key=seconds)
    return chosen + [each for each in _fastest_default(records) if each not in chosen] if chosen else []


def _fastest_default(records: Sequence[RuntimeRecord]) -> list[RuntimeRecord]:
    """The trial of the fastest default, if any was timed."""
    timed = [each for each in records if each.purpose == "baseline" and each.label in FRAMEWORK_DEFAULTS and each.timed]
    return sorted(timed, key=lambda each: each.median_seconds or math.inf)[:1]


def again(record: RuntimeRecord, label: str = "", strategy: Strategy | None = None) -> TrialRequest:
    """The request that times `strategy` to its end, for a turn under the record's conditions.

    Strategy and label are the record's own unless others are given.
    """
    return TrialRequest(
        strategy=strategy or record.strategy,
        protocol=_shorter(record.protocol),
        purpose="remeasure",
        label=label or record.label,
        run=record.run,
        seed=record.seed,
        predicted_seconds=record.predicted_seconds if strategy is None else None,
    )


def take_turns(
    requests: Sequence[TrialRequest],
    rounds: int,
    run_trial: Callable[[TrialRequest], RuntimeRecord],
    keep: Callable[[RuntimeRecord], object],
    out_of_time: Callable[[], bool] = lambda: False,
) -> list[list[RuntimeRecord]]:
    """Run the requests `rounds` times in turns, and no round that begins `out_of_time`; return the records by round."""
    turns: list[list[RuntimeRecord]] = []
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


def _shorter(protocol: TimingProtocol) -> TimingProtocol:
    """The protocol with half the steps: more turns tell more about drift between trials than more steps in each."""
    return replace(
        protocol,
        warmup_steps=math.ceil(protocol.warmup_steps / 2),
        timed_steps=math.ceil(protocol.timed_steps / 2),
    )


def seconds_for(trials: int, records: Sequence[RuntimeRecord], rounds: int, counterfactuals: int = 0) -> float:
    """Seconds that so many more `trials` and then the finals would take, so that a time budget can leave room for them.

    A trial takes what the longest of `records` that was timed did. The finals are taken to be held among those there
    are; so many `counterfactuals` are timed after them in turns with the winner, and last as long as it does.
    """
    turns = [seconds_of_turn(each) for each in finalists(records)]
    finals = rounds * (sum(turns) + ((1 + counterfactuals) * turns[0] if counterfactuals and turns else 0.0))
    return finals + trials * max((each.total_seconds for each in records if each.timed), default=0.0)


def seconds_of_turn(record: RuntimeRecord) -> float:
    """Seconds that a turn of a strategy takes, by its trial: a turn has half the steps, and runs to its end."""
    if record.outcome != "stopped":
        return (record.setup_seconds + record.total_seconds) / 2
    steps = record.protocol.warmup_steps + record.protocol.timed_steps
    return record.setup_seconds + (record.median_seconds or 0.0) * steps / 2


Rounds = list[list[RuntimeRecord]]

LOOKS = 2
"""The most times that the finals are judged before there is a verdict."""

TIMES_MORE = 2
"""Times as many rounds as the finals that the best two take again: two turns a round, where finals have up to six."""


def hold_finals(
    job: Job, chosen: Sequence[RuntimeRecord], baselines: Collection[str], defaults: Collection[str] = ()
) -> tuple[Rounds, Verdict]:
    """All rounds, and the verdict, with the winner held against the fastest of `defaults` that was among them.

    `chosen` are the finalists' trials, `baselines` and `defaults` digests. Raises `TrialError` when no trial can be run
    any more, or no baseline succeeded.
    """
    rounds, verdict = _judged(job, chosen, baselines)
    return rounds, with_default(verdict, rounds, defaults)


def _judged(job: Job, chosen: Sequence[RuntimeRecord], baselines: Collection[str]) -> tuple[Rounds, Verdict]:
    """The verdict by the rounds of all finalists if these decide, else by those of the best two alone; all rounds."""
    options = job.options
    job.console.print(
        f"Measuring the {counted(len(chosen), 'finalist')} again, {counted(options.rounds, 'time')} in turns ..."
    )
    rounds = take_turns(list(map(again, chosen)), options.rounds, job.backend.run, job.append)
    first = judge(rounds, baselines, ERROR / LOOKS)
    if not first.is_promising:
        return rounds, first
    pair = [each for each in chosen if each.strategy in (first.candidate, first.baseline)]
    if _is_out_of_time(job, pair, len(rounds)):
        return rounds, _noted(first, "More rounds of these two would tell; the time budget has no room for them.")
    count = TIMES_MORE * options.rounds
    job.console.print(
        f"The best found seems {first.speedup:.2f} x as fast as {first.baseline_label}, which may be noise: measuring "
        f"these two up to {count} times more ...",
        soft_wrap=True,
    )
    try:
        requests = list(map(again, pair))
        more = take_turns(requests, count, job.backend.run, job.append, lambda: _is_out_of_time(job, pair, 1))
    except TrialError as error:
        if isinstance(error, NodesLostError) and options.on_node_loss == "shrink":
            raise
        return rounds, _noted(first, str(error))
    paired = [turn for turn in more if all(each.outcome == "ok" for each in turn)]
    if len(paired) < len(rounds):
        return rounds + more, _noted(first, f"Of more rounds of these two only {len(paired)} came about.")
    second = judge(paired, baselines, ERROR / LOOKS)
    why = f"The first {counted(len(rounds), 'round')} had promised {first.speedup:.2f} x, and not decided."
    return rounds + more, _noted(second, why)


def _is_out_of_time(job: Job, pair: Sequence[RuntimeRecord], rounds: int) -> bool:
    """Whether so many more rounds of the `pair` would end after the time budget."""
    return rounds * sum(map(seconds_of_turn, pair)) > job.seconds_left


def _noted(verdict: Verdict, sentence: str) -> Verdict:
    return replace(verdict, note=f"{verdict.note} {sentence}".strip())


def measure_worths(job: Job, winner: RuntimeRecord) -> list[Worth]:
    """What those decisions of `winner`'s strategy are worth that most likely matter; none for a baseline itself.

    There are as many rounds as in the finals, or fewer when the time budget ends. Raises `TrialError` when no trial can
    be run any more.
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
    requests += [again(winner, f"{REVERTED}{each.label}", each.strategy) for each in chosen]
    seconds_a_round = len(requests) * seconds_of_turn(winner)
    rounds = take_turns(
        requests, options.rounds, job.backend.run, job.append, lambda: seconds_a_round > job.seconds_left
    )
    return [worth_of(each, winner.strategy, rounds) for each in chosen]
