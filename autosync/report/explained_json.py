"""Explains a strategy for programs: what `autosync explain` prints, as one JSON document."""

import math
from typing import Any

from autosync.baselines.nearest import Nearest, nearest_baseline
from autosync.cost import AnalyticSimulator, breakdown, traffic
from autosync.report.explained import terms_of
from autosync.runs.explain_input import ExplainInput
from autosync.words.strategy import strategy_in_words

FORMAT = "autosync.explanation/1"


def explanation_json(explain_input: ExplainInput) -> dict[str, Any]:
    """The strategy's decisions, the links that carry messages, the predicted step, and the nearest baseline.

    docs/command-line.md has the fields.
    """
    strategy, model, cluster = explain_input.strategy, explain_input.model, explain_input.cluster
    simulator = AnalyticSimulator()
    simulator.fit(explain_input.records)
    parts = breakdown(model, cluster, strategy, simulator.coefficients)
    nearest = nearest_baseline(strategy, model, cluster)
    return {
        "format": FORMAT,
        "strategy_digest": strategy.digest,
        "replicas": list(strategy.replicas),
        "model": model.name,
        "nodes": [node.name for node in cluster.nodes],
        "time": cluster.time,
        "notes": list(explain_input.notes),
        "decisions": list(strategy_in_words(strategy, model)),
        "links": _links(explain_input),
        "step": {
            "predicted_seconds": parts.step,
            "fitted_records": sum(record.timed for record in explain_input.records),
            "measured": explain_input.measured or None,
            "overlap": simulator.coefficients.overlap,
            "terms": [{"resource": term.what, "seconds": term.seconds} for term in terms_of(explain_input, parts)],
        },
        "nearest_baseline": _nearest(explain_input, nearest, simulator),
    }


def _links(explain_input: ExplainInput) -> list[dict[str, Any]]:
    """The links that carry messages in one step, in the cluster's order."""
    carried = traffic(explain_input.model, explain_input.cluster, explain_input.strategy)
    counts = zip(explain_input.cluster.links, carried.bytes.tolist(), carried.messages.tolist(), strict=True)
    return [
        {
            "source": link.source,
            "target": link.target,
            "bytes": total,
            "messages": messages,
            "seconds": total / link.bytes_per_second,
            "gbit_per_s": link.gbit_per_s.value,
            "rate_source": link.gbit_per_s.source,
        }
        for link, total, messages in counts
        if total
    ]


def _nearest(explain_input: ExplainInput, nearest: Nearest, simulator: AnalyticSimulator) -> dict[str, Any]:
    logs = simulator.predict(explain_input.model, explain_input.cluster, [explain_input.strategy, nearest.strategy])
    ends = nearest.step_ends
    return {
        "label": nearest.label,
        "is_same": nearest.is_same,
        "predicted_speedup": math.exp(logs[1] - logs[0]),
        "step_ends": None if ends is None else {"here": ends[0], "there": ends[1]},
        "differences": [
            {"variables": list(difference.variables), "here": difference.here, "there": difference.there}
            for difference in nearest.differences
        ],
    }
