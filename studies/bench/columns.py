"""The columns of the benchmarks' results, from which all tables and pictures are made."""

from typing import Any

import numpy as np

from autosync.cost import step_bound
from autosync.dataset import ResultColumn
from autosync.tune.recorded.cells import RecordedCell

VERSION = ResultColumn(
    "version", "text", "none", "of what made the row, by `versions`; null in rows of before there were any", later=True
)

SEARCHES = (
    ResultColumn("cell", "text", "none", "model and cluster that were searched on"),
    ResultColumn("data", "text", "none", "digest of the cell's records"),
    ResultColumn("model", "text", "none", "name of the model"),
    ResultColumn("searcher", "text", "none", "who searched"),
    ResultColumn("baselines", "flag", "none", "whether the baselines were given to the searcher"),
    ResultColumn("seed", "integer", "none", "seed of the searcher, and of which trial of a strategy is met first"),
    ResultColumn("trials", "integer", "trials", "the budget"),
    ResultColumn("taught_on", "text", "none", "digest of the cells that taught its simulator before; empty when none"),
    ResultColumn("pool", "integer", "strategies", "what there was to choose from"),
    ResultColumn("best_seconds", "number", "s", "step time of the pool's best"),
    ResultColumn("baseline_seconds", "number", "s", "step time of the best baseline"),
    ResultColumn("strategies", "texts", "none", "digests of the strategies in the order timed"),
    ResultColumn("labels", "texts", "none", "where each came from"),
    ResultColumn("purposes", "texts", "none", "of each: a baseline, a strategy searched for, or one timed again"),
    ResultColumn("measured_seconds", "numbers", "s", "median step time that the searcher was told; null when none"),
    ResultColumn(
        "true_seconds", "numbers", "s", "median over all trials of the strategy; infinite when none was timed"
    ),
    ResultColumn("hits", "flags", "none", "whether each trial was faster than the best baseline by 2 standard errors"),
    ResultColumn("clock_seconds", "numbers", "s", "when each trial ended, by the recorded lengths of trials"),
    ResultColumn("search_seconds", "number", "s", "processor time of the searcher, all trials together"),
    ResultColumn("code", "text", "none", "digest of autosync's source"),
    VERSION,
)
"""The columns of replayed searches; a row is one search."""

CELLS = (
    ResultColumn("cell", "text", "none", "model and cluster"),
    ResultColumn("data", "text", "none", "digest of the cell's records"),
    ResultColumn("model", "text", "none", "name of the model"),
    ResultColumn("variables", "integer", "variables", "of the model"),
    ResultColumn("replicas", "integer", "devices", "that train"),
    ResultColumn("batch_size", "integer", "examples", "of one replica's step"),
    ResultColumn("pool", "integer", "strategies", "different ones that were recorded"),
    ResultColumn("records", "integer", "trials", "recorded, repeats included"),
    ResultColumn("deviation", "number", "log s", "of one trial's step time, between trials of one strategy"),
    ResultColumn("best_seconds", "number", "s", "step time of the pool's best"),
    ResultColumn("best_label", "text", "none", "where that came from"),
    ResultColumn("baseline_seconds", "number", "s", "step time of the best baseline"),
    ResultColumn("baseline_label", "text", "none", "its name"),
    ResultColumn("median_baseline_seconds", "number", "s", "step time of the middle baseline"),
    ResultColumn("bound_seconds", "number", "s", "that no exact strategy's step goes below, by links and cores alone"),
    ResultColumn("hit_share", "number", "none", "share of the pool's trials faster than it by 2 standard errors"),
    ResultColumn("within_5_percent", "integer", "strategies", "that are within 5 % of the best"),
    ResultColumn("log10_size", "number", "none", "logarithm of the number of strategies in the space"),
    ResultColumn("effective_dimension", "number", "variables", "equally free, that would make as large a space"),
    VERSION,
)
"""The columns of cells; a row describes the pool of one cell."""

LIVE = (
    ResultColumn("cell", "text", "none", "model and emulated cluster"),
    ResultColumn("model", "text", "none", "name of the model"),
    ResultColumn("searcher", "text", "none", "who searched"),
    ResultColumn("without_rule", "text", "none", "rule of the space that was switched off; empty when none"),
    ResultColumn("taught_on", "text", "none", "digest of the cells that taught its simulator before; empty when none"),
    ResultColumn("seed", "integer", "none", "seed of the search"),
    ResultColumn("control", "flag", "none", "whether no gain is possible here"),
    ResultColumn("packet_bytes", "integer", "bytes", "largest packet of the emulated network"),
    ResultColumn("budget", "integer", "trials", "that were asked for"),
    ResultColumn("more", "text", "none", "what else autosync.tune was given"),
    ResultColumn("trials", "integer", "trials", "that were run, finals not counted"),
    ResultColumn("failed_trials", "integer", "trials", "of these"),
    ResultColumn("wall_seconds", "number", "s", "of the whole search, finals included"),
    ResultColumn("found_after_trials", "integer", "trials", "when the one that was returned was first timed"),
    ResultColumn("speedup", "number", "none", "best baseline's step time over the best found's, re-measured in turns"),
    ResultColumn("speedup_low", "number", "none", "low end of its 95 % interval"),
    ResultColumn("speedup_high", "number", "none", "high end of its 95 % interval"),
    ResultColumn("beyond_noise", "flag", "none", "whether the interval lies above 1"),
    ResultColumn("baseline_label", "text", "none", "the best baseline"),
    ResultColumn("baseline_seconds", "number", "s", "its step time, re-measured"),
    ResultColumn("median_baseline_seconds", "number", "s", "step time of the middle baseline"),
    ResultColumn("winner_label", "text", "none", "what the search returned"),
    ResultColumn("winner_seconds", "number", "s", "its step time, re-measured"),
    ResultColumn("changes_statistics", "flag", "none", "whether it is lossy or stale"),
    ResultColumn("bound_seconds", "number", "s", "that no exact strategy's step goes below, by links and cores alone"),
    ResultColumn("replicas", "integer", "devices", "that train"),
    ResultColumn("batch_size", "integer", "examples", "of one replica's step"),
    ResultColumn("purposes", "texts", "none", "of each trial: a baseline, a strategy searched for, or one timed again"),
    ResultColumn("measured_seconds", "numbers", "s", "median step time of each trial; null when none"),
    ResultColumn("hits", "flags", "none", "whether each trial was faster than the best baseline by 2 standard errors"),
    ResultColumn(
        "over_default", "number", "none", "step time of the fastest of frameworks' defaults over it", later=True
    ),
    ResultColumn("over_default_low", "number", "none", "low end of its 95 % interval", later=True),
    ResultColumn("over_default_high", "number", "none", "high end of its 95 % interval", later=True),
    ResultColumn(
        "given_speedup", "number", "none", "best baseline's step time over that of what was given to try", later=True
    ),
    ResultColumn("given_speedup_low", "number", "none", "low end of its 95 % interval", later=True),
    ResultColumn("given_speedup_high", "number", "none", "high end of its 95 % interval", later=True),
    ResultColumn(
        "time", "text", "none", "whether passes were real or paced; null in rows of before any were paced", later=True
    ),
    ResultColumn("code", "text", "none", "digest of autosync's source"),
    VERSION,
)
"""The columns of live searches; a row is one search."""

WITHIN = 1.05


def facts_of(cell: RecordedCell) -> dict[str, Any]:
    """Return the row of `CELLS` for this cell."""
    label, _ = cell.best_baseline
    best = min(cell.trials, key=lambda strategy: cell.seconds[strategy])
    seconds = np.array(list(cell.seconds.values()))
    # By strategy rather than by purpose, because baselines were re-measured too.
    baselines = {strategy for _, strategy in cell.baselines}
    hits = [
        cell.is_hit(trial) for strategy, trials in cell.trials.items() if strategy not in baselines for trial in trials
    ]
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
        "median_baseline_seconds": float(np.median([cell.seconds[strategy] for _, strategy in cell.baselines])),
        "bound_seconds": step_bound(cell.space.model, cell.space.cluster).seconds,
        "hit_share": float(np.mean(hits)) if hits else 0.0,
        "within_5_percent": int((seconds <= WITHIN * cell.best_seconds).sum()),
        "log10_size": cell.space.log10_size,
        "effective_dimension": cell.space.effective_dimension,
    }
