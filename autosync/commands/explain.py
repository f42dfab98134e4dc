"""The command `autosync explain`."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from autosync.commands.options import framework_option, profile_option
from autosync.commands.output import Output, json_option
from autosync.commands.shell import SETTINGS, run_command
from autosync.commands.values import FILE, PLACE, complete_among, complete_cluster_file, model_names
from autosync.spec import ClusterSpec, DeviceProfile, ModelSpec, Strategy, read_device_profile
from autosync.spec.address import Place
from autosync.terminal import say_all
from trials.capture_in_subprocess import capture_in_subprocess
from trials.capture_limit import capture_time_limit


@click.command("explain", context_settings=SETTINGS)
@click.argument("strategy", type=FILE)
@click.option(
    "--model",
    shell_complete=complete_among(model_names),
    help="A zoo model such as bert, or package.module:function.  [default: from the records]",
)
@framework_option
@click.option(
    "--cluster",
    type=FILE,
    shell_complete=complete_cluster_file,
    help="Cluster file.  [default: the run's, or the one implied by the strategy]",
)
@click.option(
    "--result",
    type=PLACE,
    help="A run's directory or its result.json, or a directory of records.  [default: next to STRATEGY]",
)
@profile_option
@capture_time_limit
@json_option("Print the explanation as JSON to stdout, and messages to stderr.")
def command(
    strategy: Path,
    model: str | None,
    framework: str | None,
    cluster: Path | None,
    result: Place | None,
    profile: Path | None,
    capture_seconds: float,
    as_json: bool,
) -> None:
    """Explain STRATEGY, a strategy.json: its decisions, its costs, and the nearest baseline."""
    # NumPy and SciPy are imported only once the arguments are valid.
    from autosync.report.explained import explanation_lines
    from autosync.report.explained_json import explanation_json
    from autosync.runs.explain_input import Loaders, Sources, find_explain_input
    from trials.cluster.file import read_cluster_file
    from trials.opening import check_profile

    if profile is not None and model is None:
        raise click.UsageError(
            "--profile belongs to the model that --model names; add --model, or leave --profile out."
        )
    stated = None if cluster is None else read_cluster_file(cluster)
    device_profile = None if profile is None else read_device_profile(profile)
    if stated is not None:
        check_profile(device_profile, stated)
    capturing = _Capturing(
        framework,
        capture_seconds,
        device_profile,
        by_own_profile=stated is not None and stated.paced and device_profile is None,
    )
    loaders = Loaders(partial(_capture, how=capturing), read_cluster_file, _cluster_implied_by)
    with Output(as_json).channel() as report:
        explain_input = find_explain_input(Sources(strategy, model, cluster, result), loaders)
        check_profile(device_profile, explain_input.cluster)
        if as_json:
            report(explanation_json(explain_input))
        else:
            say_all(explanation_lines(explain_input))


@dataclass(frozen=True)
class _Capturing:
    """The framework, the limits and the profile of a capture.

    A user's own model is captured within `seconds`. Paced passes follow `profile` or, with `by_own_profile`, the
    model's own step, which is timed on this machine.
    """

    framework: str | None
    seconds: float
    profile: DeviceProfile | None
    by_own_profile: bool


def _capture(name: str, strategy: Strategy, how: _Capturing) -> ModelSpec:
    """Capture the model called `name`, in this process or, for a user's own model, in another.

    The framework's log is suppressed, as in tune, where a worker process captures the model.
    """
    from autosync.engine.core.registry import engine_named
    from autosync.zoo import build_task, check_model_name, framework_by_name, resolve_name

    check_model_name(name, how.framework)
    on_gpus = any("/gpu:" in replica for replica in strategy.replicas)
    full_name = resolve_name(name, gpus=int(on_gpus))
    framework, in_bytes = framework_by_name(name, how.framework), b""
    if ":" in name:
        framework, in_bytes = capture_in_subprocess(name, how.seconds, framework=framework)
    assert framework is not None, "only the framework of a user's own model is open"
    engine = engine_named(framework)
    with engine.quiet_log():
        if in_bytes:
            captured = engine.load_captured(in_bytes)
        else:
            engine.load()
            captured = engine.capture(build_task(full_name, framework=framework))
        if how.by_own_profile:
            engine.load()
            captured = engine.profile(captured)
    return replace(captured.spec, device_profile=how.profile)


def _cluster_implied_by(strategy: Strategy) -> tuple[ClusterSpec, str]:
    """The cluster that the strategy's devices imply, and a sentence on the assumptions."""
    from trials.cluster.racks import ASSUMED_CORES, infer_cluster

    return infer_cluster(strategy), (
        f"No cluster is stated, so it is implied by the strategy's devices: all rates and latencies are assumed, "
        f"and {ASSUMED_CORES:g} cores per node; state yours with --cluster."
    )


main = partial(run_command, command)
