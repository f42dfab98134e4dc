"""The commands `python -m studies bench proof ...`: the study of the PyTorch engine against DDP and all rivals."""

from pathlib import Path
from typing import Any

import click

from autosync.commands.shell import SETTINGS, names_in
from autosync.errors import BenchError
from autosync.terminal import emit, say

MINUTE = 60.0


@click.group("proof", context_settings=SETTINGS)
def command() -> None:
    """Compare searches with DDP and an all-reduce tuned by hand, on PyTorch and paced clusters.

    Run `bounds` and `teach`, then `run` in as many pieces as you like, then `train` and `tables`.
    """


RESULTS = Path("runtimes/pytorch/proof")

OUT = click.option("--out", type=Path, default=RESULTS, help="Folder of all results.")
DATA = click.option(
    "--data",
    type=Path,
    default=Path("runtimes/pytorch"),
    help="Folder of records that teach guided search, with measured clusters and profiles.",
)
CELLS = click.option(
    "--cells", default="*", help="Pattern of cells such as '*@*slow_*', or of cells with a seed such as '*-0'."
)


@command.command()
@OUT
@DATA
def bounds(out: Path, data: Path) -> None:
    """Print and write the bounds of all cells, with a barrier and without. Times nothing."""
    from studies.collect.folder import Folder
    from studies.proof.bounds import bounds_of, models_of, text_of, write_bounds

    stated = bounds_of(models_of(Folder(data)))
    emit(text_of(stated))
    say(f"The bounds: {write_bounds(stated, out)}")


@command.command()
@OUT
@DATA
@CELLS
def teach(out: Path, data: Path, cells: str) -> None:
    """Make the checkpoints of guided search beforehand, each from other models on other clusters than its cell."""
    from studies.proof.cells import jobs_like
    from studies.proof.teaching import checkpoint_for, teachers

    recorded = teachers(data)
    for cell in dict.fromkeys(job.cell for job in jobs_like(cells)):
        say(f"{cell}: {checkpoint_for(cell, recorded, out / 'checkpoints')}")


@command.command()
@OUT
@DATA
@CELLS
@click.option(
    "--minutes", type=click.FloatRange(0, min_open=True), default=40.0, help="Minutes; no trial starts later."
)
@click.option("--trials", type=click.IntRange(1), default=30, help="Trials of each method; fewer only to try it out.")
@click.option("--rounds", type=click.IntRange(1), default=5, help="Rounds of the finals; fewer only to try it out.")
def run(out: Path, data: Path, cells: str, minutes: float, **options: Any) -> None:
    """Run the unfinished cells in order, the most informative first. Needs Linux, and the machine for itself.

    Stop it at any moment; the same command resumes, and no record is lost.
    """
    from studies.collect.folder import Folder
    from studies.proof.cells import jobs_like
    from studies.proof.finals import ROUNDS
    from studies.proof.methods import TRIALS
    from studies.proof.rounds import ProofOrder
    from studies.proof.rounds import run as run_jobs
    from trials.emulate.rootless import begin_as_root

    jobs = jobs_like(cells)
    if out == RESULTS and (options["trials"], options["rounds"]) != (TRIALS, ROUNDS):
        raise BenchError(
            f"Results in {RESULTS} need {TRIALS} trials and {ROUNDS} rounds; to try others out, name another --out."
        )
    begin_as_root(Folder(out).cluster_name)
    with Folder(out).held():
        left = run_jobs(ProofOrder(jobs, out, data, MINUTE * minutes, **options), say)
    say(f"{left} of {len(jobs)} jobs are left.")


@command.command()
@OUT
@CELLS
@click.option("--rounds", type=click.IntRange(1), default=5, help="Turns of each strategy.")
def train(out: Path, cells: str, rounds: int) -> None:
    """Train under the winners of finished cells with `torchrun`, in turns with DDP. Needs Linux, and the machine alone.

    Gradients are computed on batches, and held until their times on the paced nodes.
    """
    from studies.collect.folder import Folder
    from studies.proof.cells import jobs_like
    from studies.proof.training import train as train_jobs
    from trials.emulate.rootless import begin_as_root

    begin_as_root(Folder(out).cluster_name)
    with Folder(out).held():
        train_jobs(jobs_like(cells), out, rounds, say)


@command.command()
@OUT
def tables(out: Path) -> None:
    """Write the page with all tables and pictures, from the kept results."""
    from studies.proof.page import write_page

    say(f"The page: {write_page(out)}")


@command.command()
@click.option("--out", type=Path, default=Path("runs/scale"), help="Folder of the results and of captured models.")
@click.option("--models", default="", help="Models, separated by commas.  [default: the seven of real size]")
@click.option(
    "--clusters", default="", help="Clusters such as 256x1, separated by commas.  [default: 16 to 1024 workers]"
)
@click.option("--profiles", type=Path, help="Folder of device profiles, such as runtimes/devices/h100.")
def scale(out: Path, models: str, clusters: str, profiles: Path | None) -> None:
    """Predict steps with a barrier and without, on 16 to 1024 workers. Runs no training."""
    from studies.scale.barriers import AT_SCALE, BarrierOrder
    from studies.scale.barriers import run as predict_all
    from studies.scale.clusters import check_clusters
    from studies.scale.models import MODELS, check_models

    order = BarrierOrder(out, tuple(names_in(models)) or MODELS, tuple(names_in(clusters)) or AT_SCALE, profiles)
    check_models(tuple(order.models), profiles)
    check_clusters(tuple(order.clusters))
    say(f"The page: {predict_all(order, say)}")
