"""The command `autosync pretrain`: a simulator fitted on a dataset, as a checkpoint with a card."""

from functools import partial
from pathlib import Path

import click

from autosync.commands.shell import PLACE, SETTINGS, run_command
from autosync.spec.address import Place
from autosync.spec.pace import KINDS

NETWORKS = ("linear", "rnn", "gat")
"""The names of `autosync.simulator.NETWORKS`, which loads torch."""


@click.command("pretrain", context_settings=SETTINGS)
@click.option("--data", type=PLACE, default=Path("runtimes"), help="Folder of the records, or with them in `records`.")
@click.option("--kind", type=click.Choice(KINDS), help="Of which records, where times of several kinds are there.")
@click.option("--out", type=Path, help="Folder of the checkpoint.  [default: that of the kind, in the program]")
@click.option("--network", type=click.Choice(NETWORKS), default="linear", help="What corrects the base.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Same seed and same records, same checkpoint.")
@click.option("--workers", type=click.IntRange(1), help="Processes that fit together (Ray Train).  [default: this one]")
def command(data: Place, kind: str | None, out: Path | None, network: str, seed: int, workers: int | None) -> None:
    """Fit a simulator on recorded step times, and write a checkpoint from which a search can start (--warm-start).

    It learns from the strategies of the training part, of all models and clusters, stops by those of the validation
    part, and says on its card how well it predicts those of the test part. Very many records are streamed.
    """
    from autosync.studies.evaluation.pretrain_command import pretrain  # torch

    pretrain(data, kind, out, network, seed, workers)


main = partial(run_command, command)
