"""Accuracy of a simulator that the other engine's records have taught, on each engine's records.

    python -m studies.by_hand.bench_framework_transfer

Times nothing. A simulator without records, the same taught by the other engine, and by the engine itself, all predict
the test part of the engine's strategies in each cell. No tested strategy is among the records that teach, of any
engine. Prints over cells the mean and the least share of pairs in order (pairs whose steps differ by 3 % or more), and
the mean error of the seconds after division by the cell's median ratio, since engines never share their seconds.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from autosync.pretraining.cells import MeasuredCell, build_cells, split_of
from autosync.pretraining.sources import open_source
from autosync.spec import RuntimeRecord
from autosync.stats.accuracy import differences, share_in_order
from autosync.terminal import say
from studies.evaluation.simulators import BUILDERS, Evaluated, builders_for

KIND = "paced-recorded"
NEAR = 0.03
"""Pairs whose steps are closer than this share count as ties."""

FOLDERS = {"tensorflow": Path("runtimes"), "pytorch": Path("runtimes/pytorch")}
AS_RECORDED = {"tensorflow": None, "pytorch": "pytorch"}


@click.command()
@click.option("--simulator", default="linear", type=click.Choice(list(BUILDERS)), show_default=True)
@click.option("--seed", default=0, show_default=True)
def main(simulator: str, seed: int) -> None:
    """Print a line for each engine and teacher."""
    cells = {name: _cells_of(folder) for name, folder in FOLDERS.items()}
    for engine, other in (("pytorch", "tensorflow"), ("tensorflow", "pytorch")):
        make = builders_for(AS_RECORDED[engine])
        say(f"{engine}, {len(cells[engine])} cells:")
        _print("no records", make["blended"](seed), cells[engine])
        for teacher in (other, engine):
            taught = make[simulator](seed)
            taught.fit(_trials(cells[teacher], "train"), _trials(cells[teacher], "validation"))
            _print(f"{len(_trials(cells[teacher], 'train'))} records of {teacher}", taught, cells[engine])


def _cells_of(folder: Path) -> Sequence[MeasuredCell]:
    with open_source(folder, KIND) as source:
        cells, _ = build_cells(source.records, split_of)
    return cells


def _trials(cells: Sequence[MeasuredCell], part: str) -> list[RuntimeRecord]:
    return [trial for cell in cells for trial in cell.trials(part)]


def _print(teacher: str, simulator: Evaluated, cells: Sequence[MeasuredCell]) -> None:
    shares, errors = [], []
    for cell in cells:
        tested = cell.test_measurements
        took = np.array([np.log(measurement.seconds) for measurement in tested])
        first = tested[0].trials[0]
        strategies = [measurement.trials[0].strategy for measurement in tested]
        predicted, _ = simulator.predict(first.model, first.cluster, strategies)
        apart = differences(took)
        order = np.sign(apart) * (np.abs(apart) > np.log1p(NEAR))
        shares.append(float(share_in_order(predicted, order, np.ones(len(took)))))
        ratios = predicted - took
        errors.append(float(np.mean(np.abs(np.expm1(ratios - np.median(ratios))))))
    say(
        f"  taught by {teacher}: {statistics.fmean(shares):.3f} of pairs in order (least {min(shares):.3f}), seconds "
        f"{100 * statistics.fmean(errors):.1f} % off"
    )


if __name__ == "__main__":
    main()
