"""The baselines that are different strategies on one model and cluster."""

from __future__ import annotations

from collections.abc import Mapping

from autosync.baselines.decisions import Baseline
from autosync.spec import ClusterSpec, ModelSpec, Strategy, strategy_faults

__all__ = ["different_strategies"]


def different_strategies(
    baselines: Mapping[str, Baseline], model: ModelSpec, cluster: ClusterSpec
) -> dict[str, Strategy]:
    """Those of `baselines` that fit, in their order; of some that make the same decisions, only the first."""
    first: dict[str, tuple[str, Strategy]] = {}
    for name, baseline in baselines.items():
        strategy = baseline(model, cluster)
        if not any(strategy_faults(strategy, model, cluster)):
            first.setdefault(strategy.digest, (name, strategy))
    return dict(first.values())
