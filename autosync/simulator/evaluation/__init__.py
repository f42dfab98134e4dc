"""How good simulators are: metrics, splits, experiments, and a report of tables and pictures."""

from autosync.simulator.evaluation.cells import Cell, EvaluationError, cells_of
from autosync.simulator.evaluation.findings import Findings, Subject
from autosync.simulator.evaluation.journal import Journal
from autosync.simulator.evaluation.metrics import METRICS, Forecasts
from autosync.simulator.evaluation.report import PAGE, write_report
from autosync.simulator.evaluation.running import Evaluation
from autosync.simulator.evaluation.settings import ABLATIONS, EXPERIMENTS, EvaluationSettings, quick
from autosync.simulator.evaluation.simulators import BUILDERS, Builder
from autosync.simulator.evaluation.tasks import passed_over

__all__ = [
    "ABLATIONS",
    "BUILDERS",
    "EXPERIMENTS",
    "METRICS",
    "PAGE",
    "Builder",
    "Cell",
    "Evaluation",
    "EvaluationError",
    "EvaluationSettings",
    "Findings",
    "Forecasts",
    "Journal",
    "Subject",
    "cells_of",
    "passed_over",
    "quick",
    "write_report",
]
