"""The command `autosync train`."""

import time
from functools import partial
from pathlib import Path

import click
import cloup

from autosync.commands.config import config_option
from autosync.commands.options import (
    address_option,
    cluster_option,
    framework_option,
    model_option,
    working_dir_option,
)
from autosync.commands.output import Output, output_options
from autosync.commands.shell import SETTINGS, run_command
from autosync.commands.values import FILE
from autosync.errors import TrainingError
from trials.capture_limit import capture_time_limit
from trials.opening import KINDS


@cloup.command("train", context_settings=SETTINGS)
@cloup.option_group("Model", model_option, framework_option, capture_time_limit, working_dir_option)
@cloup.option_group(
    "Training",
    click.option(
        "--strategy", required=True, type=FILE, help="Strategy file, such as the strategy.json of autosync tune."
    ),
    click.option("--steps", default=500, type=click.IntRange(1), help="Steps of the whole run."),
    click.option("--checkpoint-every", default=100, type=click.IntRange(1), help="Steps between checkpoints."),
    click.option("--log-every", default=10, type=click.IntRange(1), help="Steps between printed lines."),
)
@cloup.option_group(
    "Cluster",
    click.option("--backend", default="ray", type=click.Choice(KINDS), help="Ray actors, or this process alone."),
    address_option,
    click.option("--workers", type=click.IntRange(1), help="Worker processes.  [default: as in the strategy]"),
    cluster_option,
)
@cloup.option_group(
    "Files",
    click.option("--out", type=FILE, help="Directory of the run.  [default: runs/train-MODEL-TIME]"),
    click.option("--resume", is_flag=True, help="Resume the run in --out from its newest checkpoint."),
    config_option,
)
@output_options("Print a JSON object per event to stdout, and messages to stderr.")
def command(
    model: str,
    strategy: Path,
    steps: int,
    out: Path | None,
    checkpoint_every: int,
    log_every: int,
    resume: bool,
    capture_seconds: float,
    framework: str | None,
    output: Output,
    **where: object,
) -> int:
    """Train a model under a strategy: a Keras model on batches that its task draws, a PyTorch module on the batches of
    its model function, which may return a DataLoader.

    In Python, autosync.distribute and autosync.torch.distribute train on your own data.

    The exit status is 0 when all steps were done, 1 when a failure ended training, 2 when it cannot begin.
    """
    out_is_default = out is None
    if out is None:
        if resume:
            raise TrainingError("--resume needs --out, the directory of the run to resume.")
        out = Path("runs") / f"train-{model.replace(':', '-').replace('/', '-')}-{time.strftime('%Y%m%d-%H%M%S')}"
    if where["cluster"] is not None and where["workers"] is not None:
        raise TrainingError("--workers and --cluster exclude each other; leave one of them out.")
    with output.channel() as report:
        # The framework's packages are imported only once the options are valid.
        from autosync.train.job import TrainOptions, train
        from autosync.train.place import PlaceOptions
        from autosync.train.reporter import Reporter

        return train(
            TrainOptions(
                model,
                strategy,
                steps,
                out,
                checkpoint_every,
                1 if output.verbose else log_every,
                resume,
                capture_seconds,
                PlaceOptions(**where),  # type: ignore[arg-type]
                framework,
            ),
            out_is_default,
            Reporter(output.quiet, report),
        )


main = partial(run_command, command)
