"""Runs on disk: read, listed and exported; contenders, the verdict in words, and what is to be explained."""

from autosync.runs.contenders import (
    Contender,
    beside_the_verdict,
    contender_of,
    contenders,
    contenders_of,
    ratio_of,
    strategy_name,
    verdict_in_words,
)
from autosync.runs.documents import result_of, result_schema, run_document
from autosync.runs.export import COLUMNS, csv_of, json_of, trial_rows
from autosync.runs.listing import RUNS, Listed, listed_runs, run_called
from autosync.runs.run import REVERTED, Run, is_run, read_run
from autosync.runs.run_tables import contenders_table, runs_table

__all__ = [
    "COLUMNS",
    "REVERTED",
    "RUNS",
    "Contender",
    "Listed",
    "Run",
    "beside_the_verdict",
    "contender_of",
    "contenders",
    "contenders_of",
    "contenders_table",
    "csv_of",
    "is_run",
    "json_of",
    "listed_runs",
    "ratio_of",
    "read_run",
    "result_of",
    "result_schema",
    "run_called",
    "run_document",
    "runs_table",
    "strategy_name",
    "trial_rows",
    "verdict_in_words",
]
