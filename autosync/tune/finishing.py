"""Ends a search: the finals, the verdict, the files and the printed text; or, after Ctrl-C, the command that resumes
it.
"""

import shlex
from collections.abc import Sequence
from dataclasses import replace

from autosync.baselines import is_default
from autosync.engine.core.registry import DEFAULT
from autosync.errors import NodesLostError, TrialError
from autosync.report import write_report
from autosync.runs import csv_of, read_run
from autosync.spec import RuntimeRecord, Strategy
from autosync.tune.events import report_result
from autosync.tune.finalists import finalists
from autosync.tune.finals import hold_finals, measure_worths
from autosync.tune.job import Job
from autosync.tune.options import TuneOptions
from autosync.tune.progress import Standing, ranking_in_words
from autosync.tune.ran_on import ran_on
from autosync.tune.result import (
    SearchResult,
    result_json,
    result_table,
    verdict_lines,
    worths_table,
)
from autosync.words.commands import distribute_call, export_command, resume_command, train_command
from autosync.words.quantities import count_of, duration, milliseconds
from autosync.words.strategy import strategy_in_words

NONE_SEARCHED = (
    "No candidate was timed because the baselines used all trials or all time; raise --trials or --time-budget."
)

TABLE_LEGEND = (
    '">" marks the returned strategy. "speed-up" is over the best baseline; for finalists, it compares times of '
    'the same round. "~" marks strategies that were timed only once, so that their speed-up is less certain.'
)


def report_run(job: Job) -> None:
    """Write `report.html`, its pictures and `trials.csv`, and print where they are; print a failure as one sentence.

    The run itself is over and stored by now, so neither an error here nor another Ctrl-C may hide how the run ended.
    """
    try:
        run = read_run(job.directory.path, job.options.data)
        job.directory.write_trials(csv_of(run.records))
        page = write_report(run)
    except KeyboardInterrupt:
        _say(job, "The report was interrupted.")
    except Exception as error:
        _say(job, f"The report could not be written ({type(error).__name__}: {error}).")
    else:
        job.observer.say(f"Report:   {page}")


def _say(job: Job, problem: str) -> None:
    command = shlex.join(["autosync", "report", str(job.directory.path)])
    job.observer.say(f"{problem} Write it again with: {command}")


def finish(job: Job, records: Sequence[RuntimeRecord], stopped_because: str) -> SearchResult | None:
    """Re-measure the finalists, write the winner and the result, report them, and return the result.

    Return None if no trial succeeded, or if the finals could not run.
    """
    chosen = finalists(records)
    if not chosen:
        why = "see the reasons above" if records else "the time budget had no room for a trial"
        job.observer.say(f"No trial succeeded, so there is no strategy to return; {why}.", is_verdict=True)
        report_run(job)
        return None
    if stopped_because:
        job.observer.say(stopped_because)
    baselines = {record.strategy.digest for record in records if record.purpose == "baseline"}
    defaults = {record.strategy.digest for record in records if is_default(record.label, record.framework)}
    try:
        rounds, verdict = hold_finals(job, chosen, baselines, defaults)
    except TrialError as error:
        if isinstance(error, NodesLostError) and job.options.on_node_loss == "shrink":
            raise
        summary = strategy_in_words(chosen[0].strategy, job.backend.model)
        job.directory.write_strategy(chosen[0].strategy, summary)
        file = job.directory.strategy_file
        unproven = f"{error} The best strategy of the search is in {file}; it was not proven in finals."
        job.observer.say(unproven, is_verdict=True)
        report_run(job)
        return None
    if not any(record.purpose == "search" for record in records):
        verdict = replace(verdict, note=NONE_SEARCHED)
    result = SearchResult(job.backend.model, records, rounds, verdict, stopped_because)
    _write_and_report(job, result)
    if job.options.counterfactuals:
        result = _time_counterfactuals(job, result)
    _report_files(job, result)
    report_result(job, result)
    return result


def _write_and_report(job: Job, result: SearchResult) -> None:
    verdict = result.verdict
    summary = strategy_in_words(verdict.winner, job.backend.model)
    job.directory.write_strategy(verdict.winner, summary)
    job.directory.write_result(result_json(result, job.seconds_gone))
    say = job.observer.say
    job.observer.show(result_table(result))
    say(TABLE_LEGEND)
    gain, *bound = verdict_lines(result)
    say()
    say(gain, is_verdict=True)
    for line in (*bound, f"Next, train with the returned strategy: {_how_to_train(job, verdict.winner)}"):
        say(line)
    say(f"\nThe strategy {verdict.winner_label} {verdict.winner.digest[:8]}:")
    for line in (*(f"  {line}" for line in summary), ""):
        say(line)


def _how_to_train(job: Job, winner: Strategy) -> str:
    """The command that trains with the returned strategy, and the call in the user's own script."""
    strategy, model = str(job.directory.strategy_file), job.options.model
    framework = job.options.framework_or_default
    if winner.ddp is not None:
        return f"{export_command(strategy)}, and wrap your model with that file (docs/pytorch.md)"
    if framework == DEFAULT:
        return train_command(model, strategy, ran_on(job.options))
    call = f"call {distribute_call(strategy)} in your script (docs/pytorch.md)"
    return f"{call}, or type: {train_command(model, strategy, ran_on(job.options), framework)}"


def _time_counterfactuals(job: Job, result: SearchResult) -> SearchResult:
    """Measure the worth of the winner's decisions and add them to the result. The verdict does not depend on them."""
    verdict, say = result.verdict, job.observer.say
    winner = next(record for record in result.trials if record.strategy.digest == verdict.winner.digest)
    try:
        worths = measure_worths(job, winner)
    except TrialError as error:
        say(f"The worths of the winner's decisions were not measured: {error}")
        return result
    result = replace(result, worths=worths)
    job.directory.write_result(result_json(result, job.seconds_gone))
    if worths:
        job.observer.show(worths_table(worths))
    elif verdict.winner.ddp is not None:
        say("DistributedDataParallel takes settings for all variables together, so no decision is reverted alone.\n")
    else:
        say(f"{verdict.winner_label} is a baseline, so it has no decision to revert.\n")
    return result


def _report_files(job: Job, result: SearchResult) -> None:
    say = job.observer.say
    trials = f"{count_of(len(result.trials), 'trial')} in {duration(job.seconds_gone)}."
    say(" ".join(filter(None, (trials, ranking_in_words(result.trials)))))
    strategy = job.directory.strategy_file
    say(f"Strategy: {strategy}", is_verdict=True)
    say(f"Result:   {job.directory.result_file}")
    say(f"Records:  {job.options.data}")
    say(f"Ray Tune: {job.directory.file('tune') / job.directory.name} (single trials, without the finals)")
    report_run(job)
    say(f"Explain the strategy: autosync explain {shlex.quote(str(strategy))}")


def print_interrupted(job: Job, records: Sequence[RuntimeRecord], arguments: Sequence[str]) -> None:
    """Print the best result so far, and the command that resumes the search."""
    standing = Standing.of(list(records))
    done = count_of(len(records), "trial")
    job.observer.say(f"\nStopped after {done}. The records of all trials are kept in {job.options.data}.")
    if standing.best is not None:
        job.observer.say(
            f"Best so far, timed once: {standing.best.label} {standing.best.strategy.digest[:8]} with "
            f"{milliseconds(standing.best_seconds, standing.best.time)} a step."
        )
    report_run(job)
    again = command_to_resume(arguments, job.options)
    job.observer.say(f"Resume with: {again}", is_verdict=True)


def command_to_resume(arguments: Sequence[str], options: TuneOptions) -> str:
    """The command that resumes the run of `options`, which began as `autosync tune` with `arguments`."""
    return resume_command(["tune", *arguments], str(options.out), ran_on(options))
