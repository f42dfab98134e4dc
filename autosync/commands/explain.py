"""The command `autosync explain`."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from autosync.commands.shell import PLACE, SETTINGS, run_command
from autosync.engine.capture_apart import captured_apart
from autosync.spec import ClusterSpec, DeviceProfile, ModelSpec, Strategy, read_device_profile
from autosync.spec.address import Place
from autosync.terminal import say_all
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
@click.option("--profile", type=Path, help="What paced passes follow: the model on another device, a JSON file.")
@capture_time_limit
def command(
    strategy: Path,
    model: str | None,
    cluster: Path | None,
    result: Place | None,
    profile: Path | None,
    capture_seconds: float,
) -> None:
    """Say what STRATEGY, a strategy.json, does, what it costs, and which baseline it is nearest to."""
    from autosync.report.explained import explained  # NumPy and SciPy are imported only once the command is right
    from autosync.runs.subject import Makers, Sources, find_subject
    from trials.cluster.file import read_cluster_file
    from trials.opening import check_profile

    if profile is not None and model is None:
        raise click.UsageError("--profile is of the model that --model names; name it, or leave --profile out.")
    stated = None if cluster is None else read_cluster_file(cluster)
    given = None if profile is None else read_device_profile(profile)
    if stated is not None:
        check_profile(given, stated)
    capturing = _Capturing(capture_seconds, given, by_own_profile=stated is not None and stated.paced and given is None)
    makers = Makers(partial(_captured, how=capturing), read_cluster_file, _implied)
    subject = find_subject(Sources(strategy, model, cluster, result), makers)
    check_profile(given, subject.cluster)
    say_all(explained(subject))


@dataclass(frozen=True)
class _Capturing:
    """A model of one's own is captured within `seconds`; paced passes follow `profile`, or the model's own step here,
    which is timed where it goes `by_own_profile`.
    """

    seconds: float
    profile: DeviceProfile | None
    by_own_profile: bool


def _captured(name: str, strategy: Strategy, how: _Capturing) -> ModelSpec:
    """The model called `name`, captured in this process, or in another where it is the user's own.

    What TensorFlow logs meanwhile is nothing to who asked; where tune captures, in a worker process, it is not shown.
    """
    from autosync.engine.capture.captured import CapturedModel
    from autosync.engine.capture.profile import profiled
    from autosync.engine.loading import load_tensorflow, quiet_log
    from autosync.engine.zoo import build_task, check_model_name, resolve_name

    check_model_name(name)
    on_gpus = any("/gpu:" in replica for replica in strategy.replicas)
    full_name = resolve_name(name, gpus=int(on_gpus))
    with quiet_log():
        if ":" in name:
            captured = CapturedModel.from_bytes(captured_apart(name, how.seconds))
        else:
            load_tensorflow()
            from autosync.engine.capture.capturing import capture

            captured = capture(build_task(full_name))
        if how.by_own_profile:
            load_tensorflow()
            captured = profiled(captured)
    return replace(captured.spec, device_profile=how.profile)


def _implied(strategy: Strategy) -> tuple[ClusterSpec, str]:
    """The cluster that the strategy's devices imply, and what is assumed of it."""
    from trials.cluster.racks import ASSUMED_CORES, implied_cluster

    return implied_cluster(strategy), (
        f"No cluster is given, so it is what the strategy's devices imply: all rates and latencies are assumed, "
        f"and {ASSUMED_CORES:g} cores a node; state yours with --cluster."
    )


main = partial(run_command, command)
