"""The command `python -m autosync.dataset.import_autosync`: the public AutoSync dataset into a directory of records."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from autosync.dataset.autosync_import import import_dataset
from autosync.dataset.store import RecordStore
from autosync.errors import AutosyncError

__all__ = ["main"]

NOTHING, REFUSED = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status. What was asked wrongly is one sentence on stderr."""
    try:
        return int(
            _command.main(arguments, prog_name="python -m autosync.dataset.import_autosync", standalone_mode=False)
        )
    except click.ClickException as error:
        click.echo(f"import: {error.format_message()}", err=True)
    except AutosyncError as error:
        click.echo(f"import: {error}", err=True)
    return REFUSED


@click.command(context_settings={"show_default": True})
@click.argument("directory", type=Path)
@click.option("--out", type=Path, default=Path("data"), help="Directory of records to add to.")
@click.option(
    "--sparse-rows",
    type=click.IntRange(1),
    help="Rows that a replica's step touches in each table with a sparse gradient; the dataset does not tell.",
)
def _command(directory: Path, out: Path, sparse_rows: int | None) -> int:
    """Read the public AutoSync dataset, unpacked to DIRECTORY, into records of this program."""
    imported = import_dataset(directory, RecordStore.create(out), sparse_rows)
    for (where, reason), count in imported.passed_over.most_common():
        click.echo(f"{count} of {where} passed over: {reason}")
    click.echo(f"{imported.records} samples are in {out} now; {sum(imported.passed_over.values())} were passed over.")
    return 0 if imported.records else NOTHING


if __name__ == "__main__":
    sys.exit(main())
