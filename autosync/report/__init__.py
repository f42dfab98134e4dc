"""A run as one page that needs no network, with its pictures; runs compared; a strategy explained."""

from autosync.report.comparison import Comparison, standings_of, write_comparison
from autosync.report.page import write_report

__all__ = ["Comparison", "standings_of", "write_comparison", "write_report"]
