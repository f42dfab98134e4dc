"""The command `autosync train`."""

import time
from functools import partial
from pathlib import Path

import click

from autosync.commands.shell import SETTINGS, run_command, without_rays_own_news
from autosync.errors import TrainingError
from trials.capture_limit import capture_time_limit
from trials.opening import KINDS


@click.command("train", context_settings=SETTINGS)
@click.option(
    "--model", required=True, help="A zoo model such as bert, or your own Keras model as package.module:function."
)
@click.option("--strategy", required=True, type=Path, help="What autosync tune found: strategy.json.")
@click.option("--steps", default=500, type=click.IntRange(1), help="Steps of the whole run.")
@click.option("--out", type=Path, help="Directory of the run.  [default: runs/train-MODEL-TIME]")
@click.option("--checkpoint-every", default=100, type=click.IntRange(1), help="Steps between checkpoints.")
@click.option("--log-every", default=10, type=click.IntRange(1), help="Steps between lines.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out, from its newest checkpoint.")
@click.option("--backend", default="ray", type=click.Choice(KINDS), help="Ray actors, or this process alone.")
@click.option("--workers", type=click.IntRange(1), help="Worker processes.  [default: as the strategy names]")
@click.option("--address", help="Ray cluster to join.  [default: $RAY_ADDRESS, or a local one is started]")
@click.option("--cluster", type=Path, help="Cluster file that states nodes, racks and links.")
@click.option("--working-dir", type=Path, help="Directory that Ray ships to every node.")
@capture_time_limit
def command(
    model: str,
    strategy: Path,
    steps: int,
    out: Path | None,
    checkpoint_every: int,
    log_every: int,
    resume: bool,
    capture_seconds: float,
    **where: object,
) -> int:
    """Train a Keras model on TensorFlow under a strategy, on batches it draws. Your own data: autosync.distribute.

    The exit status is 0 when all steps were done, 1 when a failure ended training, 2 when it cannot begin.
    """
    out_is_default = out is None
    if out is None:
        if resume:
            raise TrainingError("--resume needs --out, the directory of the run to go on with.")
        out = Path("runs") / f"train-{model.replace(':', '-').replace('/', '-')}-{time.strftime('%Y%m%d-%H%M%S')}"
    if where["cluster"] is not None and where["workers"] is not None:
        raise TrainingError("--workers and --cluster exclude each other; leave one of them out.")
    without_rays_own_news()
    from autosync.train.job import TrainOptions, train  # the framework's rooms are imported once options are right
    from autosync.train.place import Where

    return train(
        TrainOptions(
            model,
            strategy,
            steps,
            out,
            checkpoint_every,
            log_every,
            resume,
            capture_seconds,
            Where(**where),  # type: ignore[arg-type]
        ),
        out_is_default,
    )


main = partial(run_command, command)
