"""Fits the closed form's and the replay's coefficients to recorded step times, and prints them.

    python -m studies.by_hand.fit_coefficients runtimes/pytorch --kind paced-recorded

The printed coefficients are priors of an engine: `PRIORS` and `REPLAY_PRIORS` in `autosync/cost/coefficients.py`.
Calibration starts from the present priors of the records' framework. The test part of the strategies is left out, and
the mean absolute error of its log step seconds is printed for the prior and the fit.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from autosync.commands.options import records_framework_option
from autosync.commands.shell import SETTINGS, run_command
from autosync.commands.values import PLACE
from autosync.cost import PRIORS, REPLAY_PRIORS, AnalyticSimulator, Replay
from autosync.dataset import split_of
from autosync.pretraining.sources import open_source
from autosync.spec import RuntimeRecord
from autosync.spec.address import Place
from autosync.spec.pace import KINDS
from autosync.stats.drift import Timed
from autosync.terminal import say


@click.command("fit_coefficients", context_settings=SETTINGS)
@click.argument("data", type=PLACE, default=Path("runtimes"))
@click.option("--kind", type=click.Choice(KINDS), help="Kind of times to fit, if the records have several kinds.")
@records_framework_option
def command(data: Place, kind: str | None, framework: str | None) -> None:
    """Fit the coefficients of the closed form and of the replay to the records in DATA, and print them."""
    with open_source(data, kind, framework=framework) as source:
        timed = [record for record in source.records if record.timed]
        simulators = AnalyticSimulator(PRIORS[source.framework]), Replay(REPLAY_PRIORS[source.framework])
    to_fit = [record for record in timed if split_of(record.strategy.digest) != "test"]
    to_test = [record for record in timed if split_of(record.strategy.digest) == "test"]
    for simulator in simulators:
        before = mean_error(simulator, to_test)
        simulator.fit(to_fit)
        say(
            f"# {len(to_fit)} records; mean error of {len(to_test)} others: {before:.3f} before, "
            f"{mean_error(simulator, to_test):.3f} fitted, in log seconds"
        )
        say(in_code(simulator.coefficients))


def mean_error(simulator: AnalyticSimulator | Replay, records: Sequence[RuntimeRecord]) -> float:
    """Return the mean absolute error of the predicted log step seconds; NaN without records."""
    errors = [
        np.abs(simulator.predict(model, cluster, strategies) - timed.log_seconds[places])
        for timed in [Timed.of(records)]
        for model, cluster, places, strategies in timed.families()
    ]
    return float(np.concatenate(errors).mean()) if errors else math.nan


def in_code(coefficients: Any) -> str:
    """Return the call that makes `coefficients`, with three digits of each value."""
    values = ", ".join(f"{name}={value:.3g}" for name, value in asdict(coefficients).items())
    return f"{type(coefficients).__name__}({values})"


if __name__ == "__main__":
    sys.exit(run_command(command, program="python -m studies.by_hand.fit_coefficients"))
