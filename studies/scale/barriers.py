"""Predicts, for real-size models on 16 to 1024 workers, an all-reduce tuned by hand with a barrier after each step and
without, on the PyTorch engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autosync.baselines import DDP_BASELINES
from autosync.baselines.tuned import all_reduce_grid
from autosync.cost import REPLAY_PRIORS, Replay
from autosync.files import inner_folder, write_atomically
from autosync.spec import ClusterSpec, ModelSpec, digest, read_json
from autosync.stats.estimate import geometric_mean
from autosync.stats.tables import TextTable, tenths
from studies.bench.words import in_times
from studies.scale.clusters import CLUSTERS, SCALES, in_words
from studies.scale.models import model_of

FRAMEWORK = "pytorch"
VERSION = 1
"""Version of the code that makes a cell's result; raise it if the replay changes."""

AT_SCALE = tuple(name for name, cluster in CLUSTERS.items() if "x" in name and len(cluster.replica_devices) in SCALES)
PAGE = "barriers.md"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class BarrierOrder:
    """A request to predict `models` on `clusters`."""

    out: Path
    """The folder of the results and of captured models."""
    models: Sequence[str]
    clusters: Sequence[str] = AT_SCALE
    profiles: Path | None = None
    """The folder of GPU profiles for passes; None to estimate passes by flops."""


def run(order: BarrierOrder, say: Callable[[str], None]) -> Path:
    """Predict the cells without a result, and write the page; return its path."""
    folder = inner_folder(inner_folder(order.out.parent, order.out.name), "barriers")
    rows = []
    for name in order.models:
        model = model_of(name, order.out / "models", order.profiles)
        for cluster in order.clusters:
            file = folder / f"{digest([model.digest, CLUSTERS[cluster].digest, VERSION])}.json"
            if not file.exists():
                say(f"{name} on {cluster}")
                write_atomically(
                    file, json.dumps({"model": name, "cluster": cluster} | predict(model, CLUSTERS[cluster]))
                )
            rows.append(read_json(file, f"Result {str(file)!r}"))
    write_atomically(order.out / PAGE, page_of(rows))
    return order.out / PAGE


def predict(model: ModelSpec, cluster: ClusterSpec) -> dict[str, Any]:
    """Return predicted seconds of DDP's default, and of the best pair of bucket size and algorithm with and without a
    barrier, with their names."""
    replay = Replay(REPLAY_PRIORS[FRAMEWORK])

    def best(overlaps: bool) -> tuple[float, str]:
        grid = all_reduce_grid(model, cluster, overlaps=(overlaps,))
        return min(zip(np.exp(replay.predict(model, cluster, list(grid.values()))).tolist(), grid, strict=True))

    (barrier, barrier_label), (free, free_label) = best(False), best(True)
    default = DDP_BASELINES["ddp"](model, cluster)
    return {
        "default": float(np.exp(replay.predict(model, cluster, [default])[0])),
        "passes": replay.figures(model, cluster, default).compute_seconds,
        "barrier": barrier,
        "barrier_label": barrier_label,
        "free": free,
        "free_label": free_label,
    }


def page_of(rows: Sequence[Row]) -> str:
    """Return the page: the gain of leaving the barrier out by scale, and all cells."""
    clusters = list(dict.fromkeys(row["cluster"] for row in rows))
    by_cluster = {name: [row for row in rows if row["cluster"] == name] for name in clusters}
    return "\n".join(
        [
            "# With and without a barrier at scale, by prediction",
            "",
            "Everything on this page is **predicted** by the replay with its default coefficients for the PyTorch "
            "engine; no step was run. `python -m studies bench proof scale` writes this page.",
            "",
            _summary(by_cluster).markdown(),
            _cells(rows).markdown(),
        ]
    )


def _summary(by_cluster: Mapping[str, Sequence[Row]]) -> TextTable:
    return TextTable(
        "barrier_by_scale",
        "By scale",
        "Geometric mean over models with Student's interval: the best all-reduce with a barrier over the best one "
        "without, and DDP's default over the best one without.",
        ("cluster", "workers", "network", "models", "barrier over none", "DDP over none"),
        [
            (
                name,
                str(len(CLUSTERS[name].replica_devices)),
                in_words(name),
                str(len(rows)),
                *(_mean([row[slow] / row["free"] for row in rows]) for slow in ("barrier", "default")),
            )
            for name, rows in by_cluster.items()
        ],
    )


def _cells(rows: Sequence[Row]) -> TextTable:
    return TextTable(
        "barriers",
        "Cells",
        "Milliseconds of a step. *passes*: the forward and the backward pass alone.",
        ("model", "cluster", "passes", "DDP", "with barrier", "by", "without", "by", "barrier over none"),
        [
            (
                row["model"],
                row["cluster"],
                *(tenths(1e3 * row[name]) for name in ("passes", "default", "barrier")),
                row["barrier_label"],
                tenths(1e3 * row["free"]),
                row["free_label"].removesuffix(", overlapped"),
                f"{row['barrier'] / row['free']:.2f}",
            )
            for row in rows
        ],
    )


def _mean(ratios: Sequence[float]) -> str:
    return in_times(geometric_mean(ratios)) if len(ratios) > 1 else f"{ratios[0]:.2f}"
