"""What a run's records say: noise, hit-rates, how good predictions were, what explains step times. Numbers only."""

from autosync.report.analysis.factors import Factor, factors_of
from autosync.report.analysis.hits import HitRate, Yardstick, hit_rates, is_hit, wilson_interval, yardstick_of
from autosync.report.analysis.importance import Importance, importance_of
from autosync.report.analysis.noise import Noise, noise_of
from autosync.report.analysis.payback import Payback, payback_of
from autosync.report.analysis.predictions import Estimate, Quality, quality_of
from autosync.report.analysis.transfers import Transfers, transfers_over

__all__ = [
    "Estimate",
    "Factor",
    "HitRate",
    "Importance",
    "Noise",
    "Payback",
    "Quality",
    "Transfers",
    "Yardstick",
    "factors_of",
    "hit_rates",
    "importance_of",
    "is_hit",
    "noise_of",
    "payback_of",
    "quality_of",
    "transfers_over",
    "wilson_interval",
    "yardstick_of",
]
