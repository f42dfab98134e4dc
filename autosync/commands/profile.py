"""The command `autosync profile`: measures the duration of one replica's passes on this machine's GPU."""

import os
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import click

from autosync.commands.config import config_option
from autosync.commands.shell import SETTINGS, run_command
from autosync.commands.values import FILE, complete_among, model_names
from autosync.errors import SpecError
from autosync.files import make_folder, write_atomically
from autosync.profiling.device import DEVICES
from autosync.profiling.measured import ProfileOptions, measure_profile
from autosync.profiling.precision import PRECISIONS
from autosync.spec import canonical_json
from autosync.terminal import say
from autosync.zoo import check_model_name


@click.command("profile", context_settings=SETTINGS)
@click.option(
    "--model",
    required=True,
    shell_complete=complete_among(model_names),
    help="A zoo model such as bert-large, or your own as package.module:function.",
)
@click.option("--out", required=True, type=FILE, help="The profile to write, a JSON file.")
@click.option("--device", default="cuda", type=click.Choice(DEVICES), help="A GPU, or this machine's processors.")
@click.option(
    "--precision", default="float32", type=click.Choice(list(PRECISIONS)), help="Precision of the computation."
)
@click.option("--warmup", default=10, type=click.IntRange(0), help="Warm-up steps before timing.")
@click.option("--steps", default=40, type=click.IntRange(1), help="Steps timed.")
@click.option("--eager", is_flag=True, help="Time steps as Keras runs them, instead of the same operations replayed.")
@config_option
def command(model: str, out: Path, precision: str, **how: Any) -> None:
    """Measure the duration of a replica's forward and backward pass on a GPU, for paced nodes of `trial` and `tune`.

    PyTorch runs the same Keras model for this. TensorFlow is neither used nor needed, even if it is installed and has a
    GPU. An alias such as bert is the model that it means on CPUs.
    """
    check_model_name(model)
    check_writable(out)
    result = measure_profile(model, ProfileOptions(precision=precision, day=date.today(), **how))
    profile = result.profile
    write_atomically(out, canonical_json(profile.to_json()) + "\n")
    for name in result.unused:
        say(f"Variable {name!r} has no gradient and is left out, as when the model is captured.")
    say(
        f"{model} on {profile.device}, {profile.precision}, {profile.batch_size} examples: forward "
        f"{profile.forward_seconds * 1e3:.2f} ms, backward {profile.backward_seconds * 1e3:.2f} ms; in {out}"
    )


def check_writable(out: Path) -> None:
    """Raise `SpecError` if the file could not be written, before minutes are spent on its content."""
    make_folder(out.parent)
    if out.is_dir() or not os.access(out if out.exists() else out.parent, os.W_OK):
        raise SpecError(f"Profile {str(out)!r} cannot be written; name a file in a folder that you may write to.")


main = partial(run_command, command)
