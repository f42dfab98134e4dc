"""Runs on disk: reads, lists and exports them; finds contenders, words the verdict, and collects the input of
`explain`.
"""

from autosync.runs.contenders import (
    Contender,
    bound_in_words,
    bound_parts,
    contender_of,
    contenders,
    contenders_of,
    pace_explanation,
    ratio_of,
    strategy_name,
    verdict_in_words,
)
from autosync.runs.documents import result_of, result_schema, run_document
from autosync.runs.export import COLUMNS, csv_of, json_of, trial_rows
from autosync.runs.listing import RUNS, RunSummary, list_runs, run_called
from autosync.runs.run import REVERTED, Run, is_run, read_run
from autosync.runs.run_tables import contenders_table, runs_table

__all__ = [
    "COLUMNS",
    "REVERTED",
    "RUNS",
    "Contender",
    "Run",
    "RunSummary",
    "bound_in_words",
    "bound_parts",
    "contender_of",
    "contenders",
    "contenders_of",
    "contenders_table",
    "csv_of",
    "is_run",
    "json_of",
    "list_runs",
    "pace_explanation",
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
