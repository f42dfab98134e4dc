"""How good simulators are: metrics, splits, experiments, and a report of tables and pictures."""

from autosync.studies.evaluation.cells import EvaluationError, MeasuredCell, measured_cells
from autosync.studies.evaluation.findings import EvaluationFindings, Subject
from autosync.studies.evaluation.journal import Evaluation, Journal
from autosync.studies.evaluation.metrics import METRICS, Predictions
from autosync.studies.evaluation.report import PAGE, write_report
from autosync.studies.evaluation.simulators import BUILDERS, Builder
from autosync.studies.evaluation.tasks import ABLATIONS, EXPERIMENTS, EvaluationSettings, passed_over, quick

__all__ = [
    "ABLATIONS",
    "BUILDERS",
    "EXPERIMENTS",
    "METRICS",
    "PAGE",
    "Builder",
    "Evaluation",
    "EvaluationError",
    "EvaluationFindings",
    "EvaluationSettings",
    "Journal",
    "MeasuredCell",
    "Predictions",
    "Subject",
    "measured_cells",
    "passed_over",
    "quick",
    "write_report",
]
