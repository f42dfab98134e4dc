"""What a search costs, beside the training that it speeds up."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, final

from autosync.stats.estimate import Estimate, median_of
from autosync.stats.tables import Table
from autosync.studies.bench.live_tables import kinds_of, over_seeds
from autosync.studies.bench.standings import Standings
from autosync.studies.bench.words import in_times
from autosync.words.quantities import duration

EPOCHS = 90
TRIALS = 40
"""Trials of a replayed search for which it is charged."""

LARGE = 10
"""Epochs from which on tenths of them are not said."""

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
    """A search that took `search_seconds` and `trials`, seconds a step before it, and how many times faster it is."""

    cell: str
    model: str
    how: str
    trials: float
    search_seconds: Estimate
    baseline_seconds: float
    speedup: Estimate
    examples_a_step: int

    @property
    def steps_an_epoch(self) -> int:
        return math.ceil(TRAINED_ON[self.model][1] / self.examples_a_step)

    @property
    def training_seconds(self) -> float:
        """Seconds of `EPOCHS` epochs with the best baseline."""
        return EPOCHS * self.steps_an_epoch * self.baseline_seconds

    @property
    def epochs_to_break_even(self) -> Estimate:
        """Epochs that win back the search, with the interval of the speed-up; infinite where nothing is gained."""
        most, least = self._epochs(self.speedup.low), self._epochs(self.speedup.high)
        return Estimate(self._epochs(self.speedup.value), least, most)

    def _epochs(self, speedup: float) -> float:
        saved_an_epoch = self.steps_an_epoch * self.baseline_seconds * (1 - 1 / speedup) if speedup > 0 else 0.0
        return self.search_seconds.value / saved_an_epoch if saved_an_epoch > 0 else math.inf


def live_costs(rows: Sequence[Mapping[str, Any]], searcher: str = "guided") -> list[Cost]:
    """Costs of the searches of each cell that was searched live, over its seeds."""
    wanted = [row for row in rows if row["searcher"] == searcher and not row["control"] and not row["without_rule"]]
    return [
        Cost(
            kind.cell,
            own[0]["model"],
            "live",
            median([row["trials"] for row in own]),
            median_of([row["wall_seconds"] for row in own]),
            median([row["baseline_seconds"] for row in own]),
            over_seeds(own),
            own[0]["replicas"] * own[0]["batch_size"],
        )
        for kind, own in kinds_of(wanted).items()
        if own[0]["model"] in TRAINED_ON
    ]


def replay_costs(standings: Standings, facts: Sequence[Mapping[str, Any]], searcher: str = "guided") -> list[Cost]:
    """Costs of the searches of each recorded cell, at the median over seeds, after `TRIALS` trials."""
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
                median_of(curves.clock[:, trials - 1] + thinking),
                row["baseline_seconds"],
                median_of(curves.improvement[:, trials - 1]),
                row["replicas"] * row["batch_size"],
            )
        )
    return costs


def cost_table(costs: Sequence[Cost]) -> Table:
    """A table of seconds and trials, and of how soon they are worth it."""
    data = sorted({f"{each.model}: {TRAINED_ON[each.model][0]}" for each in costs})
    rows = [
        (
            each.cell,
            each.how,
            f"{each.trials:.0f}",
            _between(each.search_seconds, duration),
            in_times(each.speedup),
            f"{each.steps_an_epoch}",
            duration(each.training_seconds),
            f"{100 * each.search_seconds.value / each.training_seconds:.2g} %",
            _between(each.epochs_to_break_even, _epochs),
        )
        for each in costs
    ]
    return Table(
        "cost",
        "What a search costs",
        f"*live*: the whole command, finals included, and what they proved; *replay*: trials and thinking of the first "
        f"{TRIALS} trials, as short as they were recorded, without finals, and the best that was among them, which is "
        "proven by nothing: a limit of what can be hoped for. "
        f"*search*: median over seeds; *training*: {EPOCHS} epochs with the best baseline, *share*: the search's of "
        "that; *break even*: epochs after which the search is paid for, by the interval of the speed-up. Taken to be "
        f"trained on: {'; '.join(data) or 'nothing yet'}.",
        ("cell", "how", "trials", "search", "speed-up", "steps an epoch", "training", "share", "break even"),
        rows,
    )


def _between(estimate: Estimate, write: Callable[[float], str]) -> str:
    """The estimate as `write` writes it, with its interval where one is told."""
    value, low, high = map(write, (estimate.value, estimate.low, estimate.high))
    return value if low == value == high else f"{value} [{low}, {high}]"


def _epochs(epochs: float) -> str:
    if not math.isfinite(epochs):
        return "never"
    return f"{epochs:.0f}" if epochs >= LARGE else f"{epochs:.2g}"
