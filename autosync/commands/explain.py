"""The command `autosync explain`."""

from functools import partial
from pathlib import Path

import click

from autosync.commands.shell import PLACE, SETTINGS, print_lines, run_command
from autosync.engine.capture_apart import captured_apart
from autosync.spec import ClusterSpec, ModelSpec, Strategy
from autosync.spec.address import Place
from trials.capture_limit import capture_time_limit


@click.command("explain", context_settings=SETTINGS)
@click.argument("strategy", type=Path)
@click.option("--model", help="A zoo model such as bert, or package.module:function.  [default: from the records]")
@click.option("--cluster", type=Path, help="Cluster file.  [default: the run's, or what the strategy implies]")
@click.option(
    "--result",
    type=PLACE,
    help="A run's directory or its result.json, or a directory of records.  [default: beside STRATEGY]",
)
@capture_time_limit
def command(
    strategy: Path, model: str | None, cluster: Path | None, result: Place | None, capture_seconds: float
) -> None:
    """Say what STRATEGY, a strategy.json, does, what it costs, and which baseline it is nearest to."""
    from autosync.report.explained import explained  # NumPy and SciPy are imported only once the command is right
    from autosync.runs.subject import Makers, Sources, find_subject
    from trials.cluster.file import read_cluster_file

    makers = Makers(partial(_captured, seconds=capture_seconds), read_cluster_file, _implied)
    print_lines(explained(find_subject(Sources(strategy, model, cluster, result), makers)))


def _captured(name: str, strategy: Strategy, seconds: float) -> ModelSpec:
    """The model called `name`, captured in this process, or within `seconds` in another where it is the user's own.

    What TensorFlow logs meanwhile is nothing to who asked; where tune captures, in a worker process, it is not shown.
    """
    from autosync.engine.capture.captured import CapturedModel
    from autosync.engine.loading import load_tensorflow, quiet_log
    from autosync.engine.zoo import build_task, resolve_name
    from trials.opening import check_model_name

    check_model_name(name)
    on_gpus = any("/gpu:" in replica for replica in strategy.replicas)
    full_name = resolve_name(name, gpus=int(on_gpus))
    with quiet_log():
        if ":" in name:
            return CapturedModel.from_bytes(captured_apart(name, seconds)).spec
        load_tensorflow()
        from autosync.engine.capture.capturing import capture

        return capture(build_task(full_name)).spec


def _implied(strategy: Strategy) -> tuple[ClusterSpec, str]:
    """The cluster that the strategy's devices imply, and what is assumed of it."""
    from trials.cluster.racks import ASSUMED_CORES, implied_cluster

    return implied_cluster(strategy), (
        f"No cluster is given, so it is what the strategy's devices imply: all rates and latencies are assumed, "
        f"and {ASSUMED_CORES:g} cores a node; state yours with --cluster."
    )


main = partial(run_command, command)
