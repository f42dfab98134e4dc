"""The command `autosync pretrain`: fits a simulator on a dataset, and writes a checkpoint with a card."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from autosync.commands.config import config_option
from autosync.commands.options import records_framework_option
from autosync.commands.shell import SETTINGS, run_command
from autosync.commands.values import FILE, PLACE
from autosync.spec.address import Place
from autosync.spec.pace import KINDS

NETWORKS = ("linear", "rnn", "gat")
"""The names of `autosync.simulator.NETWORKS`, which loads torch."""


@click.command("pretrain", context_settings=SETTINGS)
@click.option(
    "--data", type=PLACE, default=Path("runtimes"), help="Folder of the records, or a folder with them in `records`."
)
@click.option(
    "--kind", type=click.Choice(KINDS), help="Kind of records to fit, if the data has several kinds of times."
)
@records_framework_option
@click.option("--out", type=FILE, help="Folder of the checkpoint.  [default: that of the kind, in the program]")
@click.option(
    "--network", type=click.Choice(NETWORKS), default="linear", help="Network that corrects the base simulator."
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, help="The same seed and the same records give the same checkpoint."
)
@click.option("--workers", type=click.IntRange(1), help="Processes that fit together (Ray Train).  [default: this one]")
@config_option
def command(data: Place, **options: Any) -> None:
    """Fit a simulator on recorded step times, and write a checkpoint from which a search can start (--warm-start).

    The simulator is fitted to the strategies of the training part, of all models and clusters. The validation part
    determines when fitting stops, and the card states how well the test part is predicted. Very many records are
    streamed.
    """
    from autosync.pretraining.command import pretrain  # torch

    pretrain(data, **options)


main = partial(run_command, command)
