"""The command `autosync export`."""

from functools import partial
from pathlib import Path

import click

from autosync.commands.shell import SETTINGS, run_command
from autosync.commands.values import FILE
from autosync.files import write_atomically
from autosync.spec import Strategy
from autosync.terminal import emit, say
from trials.opening import read_strategy_file

TARGETS = {
    "ddp": "wraps a model: from {stem} import wrap, verify.",
    "deepspeed": "has settings to merge into your DeepSpeed configuration; it has not been tested with DeepSpeed.",
    "horovod": "wraps an optimizer: from {stem} import start, wrap; it has not been tested with Horovod.",
}
"""The programs to export to, and the use of their files."""


@click.command("export", context_settings=SETTINGS)
@click.argument("strategy", type=FILE)
@click.option("--to", "target", required=True, type=click.Choice([*TARGETS]), help="The program to write for.")
@click.option("--out", type=FILE, help="File to write.  [default: standard output]")
def command(strategy: Path, target: str, out: Path | None) -> None:
    """Write STRATEGY, a strategy.json that another program can carry out, in that program's own form.

    For ddp, a file of plain PyTorch wraps a model in DistributedDataParallel and verifies its settings. For deepspeed,
    it is a part of a JSON configuration. For horovod, a Python file sets groups of gradients.
    """
    text = _text(read_strategy_file(strategy), target, target if out is None else out.stem)
    if out is None:
        emit(text, nl=False)
        return
    write_atomically(out, text)
    say(f"The file {out} {TARGETS[target].format(stem=out.stem)}")


def _text(strategy: Strategy, target: str, module: str) -> str:
    """The text of the file. PyTorch is imported only once the arguments are valid, and only for ddp."""
    if target == "deepspeed":
        from autosync.engine.pytorch.export_deepspeed import text_for_deepspeed

        return text_for_deepspeed(strategy)
    if target == "horovod":
        from autosync.engine.pytorch.export_horovod import text_for_horovod

        return text_for_horovod(strategy, module)
    from autosync.engine.pytorch.export import ddp_file

    return ddp_file(strategy, module)


main = partial(run_command, command)
