"""The end of a search: the finals, the verdict, the files, and the printed text; or, after Ctrl-C, how to resume."""

import shlex
from collections.abc import Sequence
from dataclasses import replace

from autosync.baselines import FRAMEWORK_DEFAULTS
from autosync.errors import NodesLostError, TrialError
from autosync.report import write_report
from autosync.runs import csv_of, read_run, verdict_in_words
from autosync.spec import RuntimeRecord
from autosync.tune.finalists import finalists
from autosync.tune.finals import hold_finals, measure_worths
from autosync.tune.job import Job
from autosync.tune.options import TuneOptions
from autosync.tune.progress import Standing, ranking_in_words
from autosync.tune.ran_on import ran_on
from autosync.tune.result import (
    Result,
    beside_in_words,
    marks_of,
    result_json,
    result_table,
    verdict_json,
    worths_table,
)
from autosync.words.commands import resume_command, train_command
from autosync.words.quantities import counted, duration, milliseconds
from autosync.words.strategy import strategy_in_words

NONE_SEARCHED = "No candidate was searched, because baselines took all trials or all time; give more of either."


def report_run(job: Job) -> None:
    """Write `report.html`, its pictures and `trials.csv`, and say where; any failure is a sentence.

    The run itself is over and kept by now: neither an error here nor another Ctrl-C may hide how it ended.
    """
    try:
        run = read_run(job.directory.path, job.options.data)
        job.directory.write_trials(csv_of(run.records))
        page = write_report(run)
    except KeyboardInterrupt:
        _say(job, "The report was not finished.")
    except Exception as error:
        _say(job, f"The report could not be drawn ({type(error).__name__}: {error}).")
    else:
        job.console.print(f"Report:   {page}", soft_wrap=True)


def _say(job: Job, what: str) -> None:
    command = shlex.join(["autosync", "report", str(job.directory.path)])
    job.console.print(f"{what} Draw it with: {command}", soft_wrap=True)


def finish(job: Job, records: Sequence[RuntimeRecord], stopped_because: str) -> int:
    """Measure the finalists again, write the winner and the result, print them, and return the exit status."""
    chosen = finalists(records)
    if not chosen:
        why = "the reasons stand above" if records else "there was no time for any"
        job.console.print(f"No trial succeeded, so there is no strategy to return: {why}.")
        report_run(job)
        return 1
    if stopped_because:
        job.console.print(stopped_because, soft_wrap=True)
    baselines = {each.strategy.digest for each in records if each.purpose == "baseline"}
    defaults = {each.strategy.digest for each in records if each.label in FRAMEWORK_DEFAULTS}
    try:
        rounds, verdict = hold_finals(job, chosen, baselines, defaults)
    except TrialError as error:
        if isinstance(error, NodesLostError) and job.options.on_node_loss == "shrink":
            raise
        summary = strategy_in_words(chosen[0].strategy, job.backend.model)
        job.directory.write_strategy(chosen[0].strategy, summary)
        job.console.print(f"{error} The best of the search is in {job.directory.strategy_file}, unproven.")
        report_run(job)
        return 1
    if not any(record.purpose == "search" for record in records):
        verdict = replace(verdict, note=NONE_SEARCHED)
    result = Result(job.backend.model, records, rounds, verdict, stopped_because)
    _write_and_print(job, result)
    if job.options.counterfactuals:
        _time_counterfactuals(job, result)
    _print_files(job, result)
    return 0


def _write_and_print(job: Job, result: Result) -> None:
    verdict = result.verdict
    summary = strategy_in_words(verdict.winner, job.backend.model)
    job.directory.write_strategy(verdict.winner, summary)
    job.directory.write_result(result_json(result, job.seconds_gone))
    console = job.console
    console.print()
    console.print(result_table(result))
    console.print()
    said = verdict_in_words(verdict_json(verdict, marks_of(result.trials)))
    console.print(said, style="bold", soft_wrap=True)
    for line in beside_in_words(result):
        console.print(line, soft_wrap=True)
    for line in summary:
        console.print(f"  {line}", soft_wrap=True)
    console.print()


def _time_counterfactuals(job: Job, result: Result) -> None:
    """Measure the worths of the winner's decisions, and add them to the result; the verdict stands without it."""
    verdict = result.verdict
    winner = next(each for each in result.trials if each.strategy.digest == verdict.winner.digest)
    try:
        worths = measure_worths(job, winner)
    except TrialError as error:
        job.console.print(f"What the winner's decisions are worth was not found out: {error}", soft_wrap=True)
        return
    job.directory.write_result(result_json(replace(result, worths=worths), job.seconds_gone))
    if not worths:
        job.console.print(f"{verdict.winner_label} is a baseline itself: no decision of it can be reverted.\n")
        return
    job.console.print(worths_table(worths))
    job.console.print()


def _print_files(job: Job, result: Result) -> None:
    console = job.console
    trials = f"{counted(len(result.trials), 'trial')} in {duration(job.seconds_gone)}."
    console.print(" ".join(filter(None, (trials, ranking_in_words(result.trials)))), soft_wrap=True)
    strategy = job.directory.strategy_file
    console.print(f"Strategy: {strategy}", soft_wrap=True)
    console.print(f"Result:   {job.directory.result_file}", soft_wrap=True)
    console.print(f"Records:  {job.options.data}", soft_wrap=True)
    report_run(job)
    console.print(f"What it does:  autosync explain {shlex.quote(str(strategy))}", soft_wrap=True)
    train = train_command(job.options.model, str(strategy), ran_on(job.options))
    console.print(f"Train with it: {train}", soft_wrap=True)


def print_interrupted(job: Job, records: Sequence[RuntimeRecord], arguments: Sequence[str]) -> None:
    """Print what has been found so far, and the command that goes on from there."""
    standing = Standing.of(list(records))
    job.console.print(f"\nStopped after {counted(len(records), 'trial')}; all of them are kept in {job.options.data}.")
    if standing.best is not None:
        job.console.print(
            f"Best so far, not re-measured: {standing.best.label} {standing.best.strategy.digest[:8]} with "
            f"{milliseconds(standing.best_seconds, standing.best.time)} a step."
        )
    report_run(job)
    again = command_to_go_on(arguments, job.options)
    job.console.print(f"Go on with: {again}", soft_wrap=True)


def command_to_go_on(arguments: Sequence[str], options: TuneOptions) -> str:
    """The command that resumes the run of `options`, which `autosync tune` with `arguments` began."""
    return resume_command(["tune", *arguments], str(options.out), ran_on(options))
