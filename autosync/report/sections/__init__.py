"""The report's sections, one per file. A section says so if the run lacks its data."""

from autosync.report.blocks import Section
from autosync.report.findings import Findings
from autosync.report.sections.asked import question_blocks
from autosync.report.sections.cluster import cluster_blocks
from autosync.report.sections.conditions import conditions_blocks, failures_blocks
from autosync.report.sections.contenders import contenders_blocks
from autosync.report.sections.difference import difference_blocks, worths_blocks
from autosync.report.sections.headline import headline_of, usage_blocks
from autosync.report.sections.importance import importance_blocks
from autosync.report.sections.predictions import predictions_blocks
from autosync.report.sections.search import search_blocks
from autosync.report.sections.step import step_blocks
from autosync.report.sections.strategy import strategy_blocks

__all__ = ["headline_of", "sections_of"]


def sections_of(findings: Findings) -> list[Section]:
    """The sections, in reading order."""
    winning = "The winning strategy" if findings.run.verdict else "The best strategy so far"
    return [
        Section("asked", "What was asked", "Asked", question_blocks(findings)),
        Section("cluster", "The cluster", "Cluster", cluster_blocks(findings)),
        Section("contenders", "Baselines and winners", "Results", contenders_blocks(findings)),
        Section("search", "The search, trial by trial", "Search", search_blocks(findings)),
        Section("predictions", "Predicted against measured", "Predictions", predictions_blocks(findings)),
        Section("strategy", winning, "Strategy", strategy_blocks(findings)),
        Section("step", "One step", "One step", step_blocks(findings)),
        Section("difference", "Against the nearest baseline", "Difference", difference_blocks(findings)),
        Section("worths", "What each decision is worth", "Decisions", worths_blocks(findings)),
        Section("importance", "Which factors matter", "Factors", importance_blocks(findings)),
        Section("failures", "What failed", "Failures", failures_blocks(findings)),
        Section("conditions", "Noise, host and versions", "Conditions", conditions_blocks(findings)),
        Section("usage", "Use it", "Use", usage_blocks(findings)),
    ]
