"""The cost of a search, compared with the training that the search speeds up."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, final

from autosync.stats.estimate import Estimate, median_of
from autosync.stats.tables import TextTable
from autosync.words.quantities import duration
from studies.bench.live_tables import kinds_of, over_seeds
from studies.bench.standings import Standings
from studies.bench.words import in_times

EPOCHS = 90
TRIALS = 40
"""Trials of a replayed search that count as its cost."""

LARGE = 10
"""Numbers of epochs from here on are written without decimals."""

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
"""The training data assumed for each model, and the examples of an epoch."""


@final
@dataclass(frozen=True)
class Cost:
    """The cost and the gain of a search on one cell, as medians or means over seeds."""

    cell: str
    model: str
    how: str
    """`live` or `replay`."""
    trials: float
    search_seconds: Estimate
    baseline_seconds: float
    """Seconds of a step with the best baseline."""
    speedup: Estimate
    """Speed-up of the returned strategy over the best baseline."""
    examples_a_step: int
    """Examples of a step over all replicas."""

    @property
    def steps_an_epoch(self) -> int:
        return math.ceil(TRAINED_ON[self.model][1] / self.examples_a_step)

    @property
    def training_seconds(self) -> float:
        """Seconds of `EPOCHS` epochs with the best baseline."""
        return EPOCHS * self.steps_an_epoch * self.baseline_seconds

    @property
    def epochs_to_break_even(self) -> Estimate:
        """Epochs until the saved time equals the search time, by the speed-up's interval; infinite without a gain."""
        most, least = self._epochs(self.speedup.low), self._epochs(self.speedup.high)
        return Estimate(self._epochs(self.speedup.value), least, most)

    def _epochs(self, speedup: float) -> float:
        saved_an_epoch = self.steps_an_epoch * self.baseline_seconds * (1 - 1 / speedup) if speedup > 0 else 0.0
        return self.search_seconds.value / saved_an_epoch if saved_an_epoch > 0 else math.inf


def live_costs(rows: Sequence[Mapping[str, Any]], searcher: str = "guided") -> list[Cost]:
    """Return the cost of live search for each cell, over the cell's seeds."""
    wanted = [row for row in rows if row["searcher"] == searcher and not row["control"] and not row["without_rule"]]
    return [
        Cost(
            kind.cell,
            searches[0]["model"],
            "live",
            median([row["trials"] for row in searches]),
            median_of([row["wall_seconds"] for row in searches]),
            median([row["baseline_seconds"] for row in searches]),
            over_seeds(searches),
            searches[0]["replicas"] * searches[0]["batch_size"],
        )
        for kind, searches in kinds_of(wanted).items()
        if searches[0]["model"] in TRAINED_ON
    ]


def replay_costs(standings: Standings, facts: Sequence[Mapping[str, Any]], searcher: str = "guided") -> list[Cost]:
    """Return the cost of replayed search for each recorded cell: medians over seeds, after `TRIALS` trials."""
    costs = []
    for row in facts:
        curves = standings.curves_by_cell(searcher).get(row["cell"])
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


def cost_table(costs: Sequence[Cost]) -> TextTable:
    """Return the table of search costs and of the epochs after which a search pays off."""
    data = sorted({f"{cost.model}: {TRAINED_ON[cost.model][0]}" for cost in costs})
    rows = [
        (
            cost.cell,
            cost.how,
            f"{cost.trials:.0f}",
            _with_interval(cost.search_seconds, duration),
            in_times(cost.speedup),
            f"{cost.steps_an_epoch}",
            duration(cost.training_seconds),
            f"{100 * cost.search_seconds.value / cost.training_seconds:.2g} %",
            _with_interval(cost.epochs_to_break_even, _epochs),
        )
        for cost in costs
    ]
    return TextTable(
        "cost",
        "Cost of a search",
        "*live*: time of the whole command with finals, and the speed-up that the finals proved; *replay*: time of the "
        f"first {TRIALS} trials, as recorded, and of the searcher, without finals, and the speed-up of the best of "
        "these trials, which no finals confirm and which is therefore an upper limit. *search*: median over seeds; "
        f"*training*: {EPOCHS} epochs with the best baseline; *share*: search time divided by training time; *break "
        "even*: epochs until the saved time equals the search time, by the interval of the speed-up. Assumed training "
        f"data: {'; '.join(data) or 'none yet'}.",
        ("cell", "how", "trials", "search", "speed-up", "steps an epoch", "training", "share", "break even"),
        rows,
    )


def _with_interval(estimate: Estimate, write: Callable[[float], str]) -> str:
    """Return the estimate in the format of `write`, with its interval unless the interval is a single value."""
    value, low, high = map(write, (estimate.value, estimate.low, estimate.high))
    return value if low == value == high else f"{value} [{low}, {high}]"


def _epochs(epochs: float) -> str:
    if not math.isfinite(epochs):
        return "never"
    return f"{epochs:.0f}" if epochs >= LARGE else f"{epochs:.2g}"
