"""The command `autosync import`: the public AutoSync dataset into a directory of records."""

from functools import partial
from pathlib import Path

import click

from autosync.commands.shell import NOT_DONE, PLACE, SETTINGS, run_command
from autosync.spec.address import Place
from autosync.terminal import say


@click.command("import", context_settings=SETTINGS)
@click.argument("directory", type=Path)
@click.option("--out", type=PLACE, default=Path("data"), help="Directory or address of records to add to.")
@click.option(
    "--sparse-rows",
    type=click.IntRange(1),
    help="Rows that a replica's step touches in each table with a sparse gradient; the dataset does not tell.",
)
def command(directory: Path, out: Place, sparse_rows: int | None) -> int:
    """Read the public AutoSync dataset, unpacked to DIRECTORY, into records of this program."""
    from autosync.dataset.autosync_import import import_dataset  # pyarrow
    from autosync.dataset.store import RecordStore

    imported = import_dataset(directory, RecordStore.create(out), sparse_rows)
    for (where, reason), count in imported.passed_over.most_common():
        say(f"{count} of {where} passed over: {reason}")
    say(f"{imported.records} samples are in {out} now; {sum(imported.passed_over.values())} were passed over.")
    return 0 if imported.records else NOT_DONE


main = partial(run_command, command)
