"""What a search costs, beside the training that it speeds up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from autosync.bench.standings import Standings
from autosync.simulator.evaluation.tables import Table
from autosync.tune.progress import duration

__all__ = ["EPOCHS", "Cost", "cost_table", "live_costs", "replay_costs"]

EPOCHS = 90
TRIALS = 40
"""Of a replayed search, for which it is charged."""

TRAINED_ON: Mapping[str, tuple[str, int]] = {
    "bert-mini": ("WikiText-2 in sequences of 32 tokens", 65_269),
    "bert-classifier-mini": ("SST-2", 67_349),
    "transformer-lm-mini": ("WikiText-2 in sequences of 32 tokens", 65_269),
    "ncf-mini": ("MovieLens-1M, four unseen films for each seen", 5_001_045),
    "vgg-mini": ("CIFAR-10", 50_000),
    "resnet-mini": ("CIFAR-10", 50_000),
    "bert-base": ("3.3 thousand million words in sequences of 128", 25_781_250),
    "bert-large": ("3.3 thousand million words in sequences of 128", 25_781_250),
    "bert-classifier": ("SST-2", 67_349),
    "transformer-lm": ("One Billion Words in sequences of 256", 3_002_535),
    "ncf": ("MovieLens-20M, four unseen films for each seen", 100_001_315),
    "vgg16": ("ImageNet", 1_281_167),
    "resnet50": ("ImageNet", 1_281_167),
    "resnet101": ("ImageNet", 1_281_167),
    "densenet121": ("ImageNet", 1_281_167),
    "inceptionv3": ("ImageNet", 1_281_167),
}
"""The data each model is taken to be trained on, and the examples of an epoch: an assumption, no more."""


@final
@dataclass(frozen=True)
class Cost:
    """A search that took `search_seconds` and `trials`, and what a step took before and takes with what it found."""

    cell: str
    model: str
    how: str
    trials: float
    search_seconds: float
    baseline_seconds: float
    found_seconds: float
    examples_a_step: int

    @property
    def steps_an_epoch(self) -> int:
        return math.ceil(TRAINED_ON[self.model][1] / self.examples_a_step)

    @property
    def training_seconds(self) -> float:
        """Of `EPOCHS` epochs with the best baseline."""
        return EPOCHS * self.steps_an_epoch * self.baseline_seconds

    @property
    def saved_seconds(self) -> float:
        """Of `EPOCHS` epochs, the search not yet paid for."""
        return EPOCHS * self.steps_an_epoch * (self.baseline_seconds - self.found_seconds)

    @property
    def epochs_to_break_even(self) -> float:
        """Infinite when nothing was gained."""
        return EPOCHS * self.search_seconds / self.saved_seconds if self.saved_seconds > 0 else math.inf


def live_costs(rows: Sequence[Mapping[str, Any]], searcher: str = "guided") -> list[Cost]:
    """Of each cell that was searched live, the middle of its seeds by how long they took."""
    by_cell: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["searcher"] == searcher and not row["control"] and not row["without_rule"]:
            by_cell.setdefault(row["cell"], []).append(row)
    middle = [sorted(own, key=lambda row: row["wall_seconds"])[len(own) // 2] for _, own in sorted(by_cell.items())]
    return [
        Cost(
            row["cell"],
            row["model"],
            "live",
            row["trials"],
            row["wall_seconds"],
            row["baseline_seconds"],
            min(row["winner_seconds"], row["baseline_seconds"]),
            row["replicas"] * row["batch_size"],
        )
        for row in middle
        if row["model"] in TRAINED_ON
    ]


def replay_costs(standings: Standings, facts: Sequence[Mapping[str, Any]], searcher: str = "guided") -> list[Cost]:
    """Of each recorded cell, at the median over seeds, after `TRIALS` trials."""
    costs = []
    for row in facts:
        curves = standings.own(searcher).get(row["cell"])
        if curves is None or row["model"] not in TRAINED_ON:
            continue
        trials = min(TRIALS, curves.true.shape[1])
        thinking = curves.thinking_seconds * trials / curves.true.shape[1]
        costs.append(
            Cost(
                row["cell"],
                row["model"],
                "replay",
                trials,
                float(np.median(curves.clock[:, trials - 1] + thinking)),
                row["baseline_seconds"],
                float(np.median(curves.best[:, trials - 1])),
                row["replicas"] * row["batch_size"],
            )
        )
    return costs


def cost_table(costs: Sequence[Cost]) -> Table:
    """Seconds and trials, and how soon they are worth it."""
    data = sorted({f"{each.model}: {TRAINED_ON[each.model][0]}" for each in costs})
    rows = [
        (
            each.cell,
            each.how,
            f"{each.trials:.0f}",
            duration(each.search_seconds),
            f"{each.baseline_seconds / each.found_seconds:.2f}",
            f"{each.steps_an_epoch}",
            duration(each.training_seconds),
            f"{100 * each.search_seconds / each.training_seconds:.2g} %",
            f"{each.epochs_to_break_even:.2g}" if math.isfinite(each.epochs_to_break_even) else "never",
        )
        for each in costs
    ]
    return Table(
        "cost",
        "What a search costs",
        f"*live*: the whole command, finals included, and what they proved; *replay*: trials and thinking of the first "
        f"{TRIALS} trials, as short as they were recorded, without finals, and the best that was among them, which is "
        "proven by nothing: a limit of what can be hoped for. "
        f"*training*: {EPOCHS} epochs with the best baseline, *share*: the search's of that; *break even*: epochs "
        f"after which the search is paid for. Taken to be trained on: {'; '.join(data) or 'nothing yet'}.",
        ("cell", "how", "trials", "search", "speed-up", "steps an epoch", "training", "share", "break even"),
        rows,
    )
