"""The command `python -m autosync.simulator.pretrain`: a simulator fitted on a dataset, as a checkpoint with a card."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from autosync.cost import Replay
from autosync.errors import AutosyncError
from autosync.simulator.evaluation import METRICS, Cell, Forecasts, cells_of
from autosync.simulator.examples import data_digest
from autosync.simulator.learned import LearnedSimulator
from autosync.simulator.networks import NETWORKS
from autosync.simulator.saved import PRETRAINED
from autosync.simulator.stored import split_of, stored_records

__all__ = ["card_of", "main", "pretrained"]

REFUSED = 2
CARD = "card.json"
SHOWN = ("pairwise", "peak_at_1", "mape", "coverage")
"""Metrics that are printed; the card has all."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status. What was asked wrongly is one sentence on stderr."""
    try:
        _command.main(arguments, prog_name="python -m autosync.simulator.pretrain", standalone_mode=False)
        return 0
    except click.ClickException as error:
        click.echo(f"pretrain: {error.format_message()}", err=True)
    except AutosyncError as error:
        click.echo(f"pretrain: {error}", err=True)
    return REFUSED


@click.command(context_settings={"show_default": True, "max_content_width": 110})
@click.option("--data", type=Path, default=Path("runtimes"), help="Folder of the records, or with them in `records`.")
@click.option("--out", type=Path, help="Folder of the checkpoint.  [default: the one that comes with the program]")
@click.option("--network", type=click.Choice(list(NETWORKS)), default="linear", help="What corrects the replay.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Same seed and same records, same checkpoint.")
def _command(data: Path, out: Path | None, network: str, seed: int) -> None:
    """Fit a simulator on recorded step times, and write what a search can start from (--warm-start).

    It learns from the strategies of the training part, of all models and clusters, stops by those of the validation
    part, and says on its card how well it foretells those of the test part.
    """
    cells, small = cells_of(stored_records(data), split_of)
    for sentence in small:
        click.echo(f"Passed over: {sentence}")
    out = out or Path(__file__).with_name(PRETRAINED)
    learned = pretrained(cells, network, seed)
    learned.save(out)
    card = card_of(learned, cells)
    (out / CARD).write_text(json.dumps(card, indent=1) + "\n")
    for line in _table(card):
        click.echo(line)
    size = sum(file.stat().st_size for file in out.iterdir())
    click.echo(f"{network}, fitted on {card['records']} records: {size / 1e6:.2f} MB in {out}")


def pretrained(cells: Sequence[Cell], network: str, seed: int) -> LearnedSimulator:
    """A simulator that has learned from the cells' training and validation parts."""
    learned = LearnedSimulator(Replay(), network, seed)
    train, validation = ([trial for cell in cells for trial in cell.trials(part)] for part in ("train", "validation"))
    learned.fit(train, validation=validation)
    return learned


def card_of(learned: LearnedSimulator, cells: Sequence[Cell]) -> dict[str, Any]:
    """What the simulator learned from, and every metric on the test part of each cell, as JSON."""
    train = [trial for cell in cells for trial in cell.trials("train")]
    rows: list[dict[str, Any]] = [
        {"cell": cell.name, "tested": len(cell.tested), **_metrics(learned, cell)} for cell in cells
    ]
    return {
        "network": learned.network,
        "seed": learned.seed,
        "records": len(train),
        "data_digest": data_digest(train),
        "cells": rows,
        "mean": {name: _mean([row[name] for row in rows]) for name in METRICS},
    }


def _metrics(learned: LearnedSimulator, cell: Cell) -> dict[str, float | None]:
    tested, about = cell.tested, cell.measurements[0].trials[0]
    strategies = [each.trials[0].strategy for each in tested]
    mean, spread = learned.predict_with_spread(about.model, about.cluster, strategies)
    measured = np.log([each.seconds for each in tested])
    forecasts = Forecasts(mean, measured, cell.errors(tested), spread)
    return {name: _rounded(metric.of(forecasts)) for name, metric in METRICS.items()}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return _rounded(np.mean(known)) if known else None


def _rounded(value: Any) -> float | None:
    """A number for JSON, which has no NaN."""
    return round(float(value), 4) if np.isfinite(value) else None


def _table(card: Mapping[str, Any]) -> list[str]:
    """One line a cell, and the mean of all."""
    rows = [*card["cells"], {"cell": "mean", **card["mean"]}]
    width = max(len(row["cell"]) for row in rows)
    table = [["", *(METRICS[name].heading for name in SHOWN)]]
    table += [[row["cell"], *("-" if row[name] is None else f"{row[name]:.3f}" for name in SHOWN)] for row in rows]
    return ["  ".join([f"{name:{width}}", *(f"{text:>19}" for text in texts)]) for name, *texts in table]


if __name__ == "__main__":
    sys.exit(main())
