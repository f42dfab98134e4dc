"""The report and the rows of a run, written when it ends, however it ends."""

from __future__ import annotations

from autosync.report import write_report
from autosync.runs import csv_of, read_run
from autosync.tune.job import Job

__all__ = ["report_run"]


def report_run(job: Job) -> None:
    """Write `report.html`, its pictures and `trials.csv`, and say where; whatever goes wrong is a sentence.

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
    job.console.print(f"{what} Draw it with: python -m autosync.report {job.directory.path}", soft_wrap=True)
