"""Evaluates simulators: metrics, splits, experiments, and a report with tables and pictures."""

from autosync.pretraining.cells import EvaluationError, MeasuredCell, build_cells
from autosync.pretraining.metrics import METRICS, Predictions
from studies.evaluation.findings import EvaluationFindings, PredictionKey
from studies.evaluation.journal import Journal, SimulatorEvaluation
from studies.evaluation.report import PAGE, write_report
from studies.evaluation.simulators import BUILDERS, Builder
from studies.evaluation.tasks import ABLATIONS, EXPERIMENTS, EvaluationSettings, missing_data, quick

__all__ = [
    "ABLATIONS",
    "BUILDERS",
    "EXPERIMENTS",
    "METRICS",
    "PAGE",
    "Builder",
    "EvaluationError",
    "EvaluationFindings",
    "EvaluationSettings",
    "Journal",
    "MeasuredCell",
    "PredictionKey",
    "Predictions",
    "SimulatorEvaluation",
    "build_cells",
    "missing_data",
    "quick",
    "write_report",
]
