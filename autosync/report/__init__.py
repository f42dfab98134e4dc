"""The report of a run as one HTML page that needs no network, with pictures; comparisons of runs; explanations of
strategies.
"""

from autosync.report.comparison import Comparison, standings_of, write_comparison
from autosync.report.page import write_report

__all__ = ["Comparison", "standings_of", "write_comparison", "write_report"]
