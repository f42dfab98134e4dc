"""The command `autosync pretrain`: a simulator fitted on a dataset, as a checkpoint with a card."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from autosync.commands.shell import PLACE, SETTINGS, print_lines, run_command
from autosync.simulator.networks import NETWORKS
from autosync.simulator.saved import shipped_folder
from autosync.spec.address import Place
from autosync.studies.evaluation import METRICS, measured_cells
from autosync.studies.evaluation.cells import KINDS, split_of, stored_records
from autosync.studies.evaluation.pretraining import card_of, pretrained

CARD = "card.json"
SHOWN = ("pairwise", "peak_at_1", "mape", "coverage")
"""Metrics that are printed; the card has all."""


@click.command("pretrain", context_settings=SETTINGS)
@click.option("--data", type=PLACE, default=Path("runtimes"), help="Folder of the records, or with them in `records`.")
@click.option("--kind", type=click.Choice(KINDS), help="Of which records, where times of several kinds are there.")
@click.option("--out", type=Path, help="Folder of the checkpoint.  [default: the one that comes with the program]")
@click.option("--network", type=click.Choice(list(NETWORKS)), default="linear", help="What corrects the replay.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Same seed and same records, same checkpoint.")
def command(data: Place, kind: str | None, out: Path | None, network: str, seed: int) -> None:
    """Fit a simulator on recorded step times, and write what a search can start from (--warm-start).

    It learns from the strategies of the training part, of all models and clusters, stops by those of the validation
    part, and says on its card how well it predicts those of the test part.
    """
    cells, small = measured_cells(stored_records(data, kind), split_of)
    print_lines(f"Passed over: {sentence}" for sentence in small)
    out = out or shipped_folder()
    learned = pretrained(cells, network, seed)
    learned.save(out)
    card = card_of(learned, cells)
    (out / CARD).write_text(json.dumps(card, indent=1) + "\n")
    print_lines(_table(card))
    size = sum(file.stat().st_size for file in out.iterdir())
    click.echo(f"{network}, fitted on {card['records']} records: {size / 1e6:.2f} MB in {out}")


def _table(card: Mapping[str, Any]) -> list[str]:
    """One line a cell, and the mean of all."""
    rows = [*card["cells"], {"cell": "mean", **card["mean"]}]
    width = max(len(row["cell"]) for row in rows)
    table = [["", *(METRICS[name].heading for name in SHOWN)]]
    table += [[row["cell"], *("-" if row[name] is None else f"{row[name]:.3f}" for name in SHOWN)] for row in rows]
    return ["  ".join([f"{name:{width}}", *(f"{text:>19}" for text in texts)]) for name, *texts in table]


main = partial(run_command, command)
