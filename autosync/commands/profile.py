"""The command `autosync profile`: the duration of one replica's passes on this machine's GPU."""

import os
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import click

from autosync.commands.shell import SETTINGS, run_command
from autosync.engine.zoo import check_model_name
from autosync.errors import SpecError
from autosync.files import made_folder, write_atomically
from autosync.profiling.device import DEVICES
from autosync.profiling.measured import Measuring, measured
from autosync.profiling.precision import PRECISIONS
from autosync.spec import canonical_json
from autosync.terminal import say


@click.command("profile", context_settings=SETTINGS)
@click.option("--model", required=True, help="A zoo model such as bert-large, or your own as package.module:function.")
@click.option("--out", required=True, type=Path, help="The profile to write, a JSON file.")
@click.option("--device", default="cuda", type=click.Choice(DEVICES), help="A GPU, or this machine's processors.")
@click.option("--precision", default="float32", type=click.Choice(list(PRECISIONS)), help="What is computed in.")
@click.option("--warmup", default=10, type=click.IntRange(0), help="Steps thrown away before timing.")
@click.option("--steps", default=40, type=click.IntRange(1), help="Steps timed.")
@click.option("--eager", is_flag=True, help="Time steps as Keras starts them, and not the same operations replayed.")
def command(model: str, out: Path, precision: str, **how: Any) -> None:
    """Measure what a replica's forward and backward pass take on a GPU, for `trial` and `tune` to pace nodes by.

    It is measured with PyTorch, on which Keras then runs the same model; TensorFlow is neither used nor needed, also
    where it is installed and has a GPU. An alias such as bert is the model that it means on CPUs.
    """
    check_model_name(model)
    _check_writable(out)
    found = measured(model, Measuring(precision=precision, day=date.today(), **how))
    profile = found.profile
    write_atomically(out, canonical_json(profile.to_json()) + "\n")
    for name in found.unused:
        say(f"Variable {name!r} has no gradient and is left out, as when the model is captured.")
    say(
        f"{model} on {profile.device}, {profile.precision}, {profile.batch_size} examples: forward "
        f"{profile.forward_seconds * 1e3:.2f} ms, backward {profile.backward_seconds * 1e3:.2f} ms; in {out}"
    )


def _check_writable(out: Path) -> None:
    """Raise `SpecError` for a file that could not be written, before minutes are spent on its content."""
    made_folder(out.parent)
    if out.is_dir() or not os.access(out if out.exists() else out.parent, os.W_OK):
        raise SpecError(f"Profile {str(out)!r} cannot be written; name a file in a folder that you may write to.")


main = partial(run_command, command)
