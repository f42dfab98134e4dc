"""The bounds of all cells, computed before any is run, from the stated figures of clusters and the kept profiles."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autosync.baselines import baselines_for, different_strategies
from autosync.cost import REPLAY_PRIORS, Replay, StepBound, step_bound
from autosync.engine.core.registry import engine_named
from autosync.errors import BenchError
from autosync.files import inner_folder, write_atomically
from autosync.spec import ModelSpec
from autosync.stats.cells import CellName
from autosync.stats.tables import TextTable, tenths
from autosync.zoo import build_task
from studies.collect.folder import Folder
from studies.proof.cells import CLUSTERS, DEFAULT, FRAMEWORK, MODELS, cluster_named
from studies.proof.targets import BIG_GAIN, OVER_DEFAULT, ROOM

PAGE, TABLE = "bounds.md", "bounds.csv"


@dataclass(frozen=True)
class CellBounds:
    """The bounds of a cell."""

    cell: CellName
    with_barrier: StepBound
    without: StepBound
    default_seconds: float
    """A step of DDP's default, as the replay predicts it with its default coefficients."""
    baseline_seconds: float
    """A step of the best baseline, predicted likewise."""


def models_of(folder: Folder) -> dict[str, ModelSpec]:
    """Return the models as the engine captures them, with the profiles that `folder` keeps. Nothing is timed.

    Raises `BenchError` for a model without a kept profile.
    """
    engine = engine_named(FRAMEWORK)
    engine.load()
    with engine.quiet_log():
        captured = {name: engine.capture(build_task(name, framework=FRAMEWORK)).spec for name in MODELS}
    models = {name: folder.with_profile(model) for name, model in captured.items()}
    for name, model in models.items():
        if model.profile is None:
            raise BenchError(
                f"Bounds need a profile, but {folder.path} has none of the present {name}; collect it first."
            )
    return models


def bounds_of(models: Mapping[str, ModelSpec]) -> list[CellBounds]:
    """Return the bounds of all cells with the clusters as stated."""
    return [_cell_bounds(CellName(name, cluster), model) for cluster in CLUSTERS for name, model in models.items()]


def _cell_bounds(cell: CellName, model: ModelSpec) -> CellBounds:
    cluster = cluster_named(cell.cluster)
    baselines = different_strategies(baselines_for(FRAMEWORK), model, cluster)
    replay = Replay(REPLAY_PRIORS[FRAMEWORK])
    seconds = np.exp(replay.predict(model, cluster, list(baselines.values()))).tolist()
    predicted = dict(zip(baselines, seconds, strict=True))
    with_barrier, without = step_bound(model, cluster), step_bound(model, cluster, overlaps=True)
    return CellBounds(cell, with_barrier, without, predicted[DEFAULT], min(seconds))


def bounds_table(bounds: list[CellBounds]) -> TextTable:
    return TextTable(
        "bounds",
        "Bounds, before any cell was run",
        "Milliseconds of a step that no exact strategy goes below, by stated links, cores and paced passes "
        "(`autosync/cost/bound.py`), with a barrier after each step and without; *over*: their ratio. *limit*: the "
        "limit of a step without a barrier. *DDP* and *baseline*: a step of DDP's default and of the best baseline, as "
        "the replay predicts them, over the bound without a barrier: the expected room.",
        ("cluster", "model", "with barrier", "without", "over", "DDP", "baseline", "limit"),
        [
            (
                bound.cell.cluster,
                bound.cell.model,
                tenths(1e3 * bound.with_barrier.seconds),
                tenths(1e3 * bound.without.seconds),
                *(
                    f"{seconds / bound.without.seconds:.2f}"
                    for seconds in (bound.with_barrier.seconds, bound.default_seconds, bound.baseline_seconds)
                ),
                bound.without.reason,
            )
            for bound in bounds
        ],
    )


def text_of(bounds: list[CellBounds]) -> str:
    """Return the table in Markdown, and a sentence on the targets that the bounds allow."""
    over_default = statistics.geometric_mean(bound.default_seconds / bound.without.seconds for bound in bounds)
    rooms = [bound.baseline_seconds / bound.without.seconds for bound in bounds]
    usual, big = (sum(room >= least for room in rooms) for least in (ROOM, BIG_GAIN))
    return (
        f"{bounds_table(bounds).markdown()}\n"
        f"If every strategy were at its bound, by these predictions: {over_default:.2f} over DDP's default (geometric "
        f"mean; target {OVER_DEFAULT}); {usual} of {len(bounds)} cells allow {ROOM} over the best baseline, and {big} "
        f"allow {BIG_GAIN}.\n"
    )


def write_bounds(bounds: list[CellBounds], out: Path) -> Path:
    """Write the page and the CSV file of the bounds into `out`; return the path of the page."""
    inner_folder(out.parent, out.name)
    write_atomically(out / TABLE, bounds_table(bounds).csv())
    write_atomically(out / PAGE, f"# The cells of the proof on PyTorch\n\n{text_of(bounds)}")
    return out / PAGE
