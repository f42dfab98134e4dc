"""Runs a search on an emulated cluster: brings the cluster up, runs the same command on its head, and takes it down."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec
from autosync.terminal import say
from autosync.tune.directory import RunDirectory, claim_run
from autosync.tune.options import TuneOptions
from autosync.tune.preflight import check_cheap_things
from autosync.tune.ran_on import INSIDE
from trials.cluster.file import cluster_to_emulate
from trials.emulate import emulated, run_inside
from trials.emulate.rootless import begin_as_root


def tune_on_emulation(
    description: str, options: TuneOptions, arguments: Sequence[str], out_is_default: bool = False
) -> int | None:
    """Run `autosync tune` with `arguments`, parsed as `options`, on a cluster like `description`; return the exit
    status.

    Return None, after a message, if this machine cannot emulate a cluster and the options allow local workers instead.
    `out_is_default`: the folder is named after the time, so another name may replace it. The cluster is removed in any
    case. Raises `ClusterError` if it cannot be made.
    """
    check_cheap_things(options)
    name, spec = f"tune{os.getpid()}", cluster_to_emulate(description)
    try:
        begin_as_root(name)
    except ClusterError as error:
        if not options.or_local:
            raise
        say(f"{error} The search therefore uses workers of this machine, and no emulated links connect them.")
        return None
    with claim_run(options.out, is_default=out_is_default, resume=options.resume) as out:
        RunDirectory.open(options.model_copy(update={"out": out}))
        return on_its_head(name, spec, ["tune", *with_out(arguments, out)])


def with_out(arguments: Sequence[str], out: Path) -> Sequence[str]:
    """The `arguments` of a command, with the folder of its run added if they name none."""
    named = any(argument == "--out" or argument.startswith("--out=") for argument in arguments)
    return arguments if named else [*arguments, "--out", str(out)]


def on_its_head(name: str, spec: ClusterSpec, arguments: Sequence[str]) -> int:
    """Make a cluster like `spec`, run `autosync` with `arguments` on its head, and return the exit status."""
    say(f"Making an emulated cluster of {len(spec.nodes)} nodes ...")
    with emulated(name, spec) as cluster:
        say(f"Ray dashboard: {cluster.dashboard_url} (token in {cluster.token_path})")
        sys.stdout.flush()
        command = [sys.executable, "-m", "autosync", *arguments]
        # The driver proposes strategies. On the head's share of a core it would be too slow, and trials would wait for
        # it.
        return run_inside(cluster.hosts[0], command, within_quota=False, env=os.environ | {INSIDE: name})
