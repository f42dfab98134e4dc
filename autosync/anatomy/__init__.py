"""A strategy taken apart: who holds which bytes, what it decides in words, and how it differs from another."""

from autosync.anatomy.architecture import ARCHITECTURES, architecture_of, summary_of
from autosync.anatomy.nearest import Difference, Nearest, nearest_baseline
from autosync.anatomy.quantities import counted, duration, megabytes, milliseconds, model_in_words
from autosync.anatomy.words import (
    algorithm_in_words,
    compressor_in_words,
    decision_in_words,
    marked,
    statistics_in_words,
    strategy_in_words,
)

__all__ = [
    "ARCHITECTURES",
    "Difference",
    "Nearest",
    "algorithm_in_words",
    "architecture_of",
    "compressor_in_words",
    "counted",
    "decision_in_words",
    "duration",
    "marked",
    "megabytes",
    "milliseconds",
    "model_in_words",
    "nearest_baseline",
    "statistics_in_words",
    "strategy_in_words",
    "summary_of",
]
