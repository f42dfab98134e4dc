"""The report's sections, one a file, each made of what the run found; each says so where the run does not say."""

from collections.abc import Callable

from autosync.report.blocks import Section
from autosync.report.findings import Findings
from autosync.report.sections.asked import asked_section
from autosync.report.sections.cluster import cluster_section
from autosync.report.sections.conditions import conditions_section, failures_section
from autosync.report.sections.contenders import contenders_section
from autosync.report.sections.difference import difference_section, worths_section
from autosync.report.sections.headline import headline_of, usage_section
from autosync.report.sections.importance import importance_section
from autosync.report.sections.predictions import predictions_section
from autosync.report.sections.search import search_section
from autosync.report.sections.strategy import strategy_section

__all__ = ["SECTIONS", "headline_of"]

SECTIONS: tuple[Callable[[Findings], Section], ...] = (
    asked_section,
    cluster_section,
    contenders_section,
    search_section,
    predictions_section,
    strategy_section,
    difference_section,
    worths_section,
    importance_section,
    failures_section,
    conditions_section,
    usage_section,
)
"""The sections, in the order in which they are read."""
