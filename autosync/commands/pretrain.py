"""The command `autosync pretrain`: a simulator fitted on a dataset, as a checkpoint with a card."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from autosync.commands.shell import PLACE, SETTINGS, run_command
from autosync.files import write_atomically
from autosync.simulator.learned import LearnedSimulator
from autosync.simulator.networks import NETWORKS
from autosync.simulator.saved import shipped_folder
from autosync.simulator.streamed import STREAMING
from autosync.spec.address import Place
from autosync.studies.evaluation import METRICS, MeasuredCell, measured_cells
from autosync.studies.evaluation.cells import KINDS, cells_to_teach, split_of
from autosync.studies.evaluation.pretraining import card_of, pretrained, pretrained_by_stream
from autosync.studies.evaluation.sources import Source, opened
from autosync.terminal import say, say_all

CARD = "card.json"
SHOWN = ("pairwise", "peak_at_1", "mape", "coverage")
"""Metrics that are printed; the card has all."""


@click.command("pretrain", context_settings=SETTINGS)
@click.option("--data", type=PLACE, default=Path("runtimes"), help="Folder of the records, or with them in `records`.")
@click.option("--kind", type=click.Choice(KINDS), help="Of which records, where times of several kinds are there.")
@click.option("--out", type=Path, help="Folder of the checkpoint.  [default: that of the kind, in the program]")
@click.option("--network", type=click.Choice(list(NETWORKS)), default="linear", help="What corrects the base.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Same seed and same records, same checkpoint.")
@click.option("--workers", type=click.IntRange(1), help="Processes that fit together (Ray Train).  [default: this one]")
def command(data: Place, kind: str | None, out: Path | None, network: str, seed: int, workers: int | None) -> None:
    """Fit a simulator on recorded step times, and write what a search can start from (--warm-start).

    It learns from the strategies of the training part, of all models and clusters, stops by those of the validation
    part, and says on its card how well it predicts those of the test part. Very many records are streamed.
    """
    with opened(data, kind, workers) as source:
        say_all(source.in_words())
        cells, small = measured_cells(source.records, split_of)
        say_all(f"Not on the card: {sentence}" for sentence in small)
        learned = _learned(source, cells_to_teach(source.records, split_of), network, seed, workers)
    out = out or shipped_folder(learned.kinds[0])
    learned.save(out)
    card = card_of(learned, cells)
    write_atomically(out / CARD, json.dumps(card, indent=1) + "\n")
    say_all(_table(card))
    size = sum(file.stat().st_size for file in out.iterdir())
    say(f"{network}, fitted on {card['records']} records: {size / 1e6:.2f} MB in {out}")


def _learned(
    source: Source, cells: Sequence[MeasuredCell], network: str, seed: int, workers: int | None
) -> LearnedSimulator:
    """A simulator fitted on all records, by those in memory where they are all or where it reads more than is kept."""
    if source.survey is None or (workers is None and (source.is_whole or network != STREAMING)):
        if not source.is_whole:
            say(f"Only the network {STREAMING} is fitted on all of them; {network} is on that sample.")
        return pretrained(cells, network, seed)
    return pretrained_by_stream(cells, source.survey, network, seed, workers)


def _table(card: Mapping[str, Any]) -> list[str]:
    """One line a cell, and the mean of all."""
    rows = [*card["cells"], {"cell": "mean", **card["mean"]}]
    width = max(len(row["cell"]) for row in rows)
    table = [["", *(METRICS[name].heading for name in SHOWN)]]
    table += [[row["cell"], *("-" if row[name] is None else f"{row[name]:.3f}" for name in SHOWN)] for row in rows]
    return ["  ".join([f"{name:{width}}", *(f"{text:>19}" for text in texts)]) for name, *texts in table]


main = partial(run_command, command)
