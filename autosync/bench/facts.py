"""What a cell's pool and its space are like, in a few figures."""

from __future__ import annotations

from typing import Any

import numpy as np

from autosync.cost import step_bound
from autosync.tune.recorded.cells import Cell

__all__ = ["facts_of"]

WITHIN = 1.05


def facts_of(cell: Cell) -> dict[str, Any]:
    """The row of `CELLS` for this cell."""
    label, _ = cell.best_baseline
    best = min(cell.trials, key=lambda each: cell.seconds[each])
    seconds = np.array(list(cell.seconds.values()))
    # Known by strategy, not by purpose: baselines were timed again too.
    baselines = {strategy for _, strategy in cell.baselines}
    hits = [cell.is_hit(each) for strategy, own in cell.trials.items() if strategy not in baselines for each in own]
    return {
        "cell": cell.name,
        "data": cell.digest,
        "model": cell.space.model.name,
        "variables": len(cell.space.model.variables),
        "replicas": len(cell.space.replicas),
        "batch_size": cell.space.model.batch_size,
        "pool": len(cell.trials),
        "records": sum(map(len, cell.trials.values())),
        "deviation": cell.deviation,
        "best_seconds": cell.best_seconds,
        "best_label": cell.trials[best][0].label,
        "baseline_seconds": cell.baseline_seconds,
        "baseline_label": label,
        "median_baseline_seconds": float(np.median([cell.seconds[each] for _, each in cell.baselines])),
        "bound_seconds": step_bound(cell.space.model, cell.space.cluster).seconds,
        "hit_share": float(np.mean(hits)) if hits else 0.0,
        "within_5_percent": int((seconds <= WITHIN * cell.best_seconds).sum()),
        "log10_size": cell.space.log10_size,
        "effective_dimension": cell.space.effective_dimension,
    }
