"""A search on a cluster made for it, which is brought up, runs the same command on its head, and is taken down."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec
from autosync.terminal import say
from autosync.tune.directory import RunDirectory, claimed_run
from autosync.tune.options import TuneOptions
from autosync.tune.ran_on import INSIDE
from autosync.tune.refusals import check_cheap_things
from trials.cluster.file import cluster_to_emulate
from trials.emulate import emulated, run_inside
from trials.emulate.ordinary import begin_as_root


def tune_emulated(
    what: str, options: TuneOptions, arguments: Sequence[str], out_is_default: bool = False
) -> int | None:
    """Run `autosync tune` with `arguments`, which gave `options`, on a cluster like `what`; its exit status.

    With `out_is_default` the folder is named after the time, so another name does as well.
    None where this machine allows no cluster, once that is said, if the options ask for workers of the machine then.
    Whatever becomes of it, nothing of the cluster is left. Raises `ClusterError` when it cannot be made.
    """
    check_cheap_things(options)
    name, spec = f"tune{os.getpid()}", cluster_to_emulate(what)
    try:
        begin_as_root(name)
    except ClusterError as error:
        if not options.or_local:
            raise
        say(f"{error} So the search is on workers of this machine, and nothing shapes what is between them.")
        return None
    with claimed_run(options.out, is_default=out_is_default, resume=options.resume) as out:
        RunDirectory.open(options.model_copy(update={"out": out}))
        return on_its_head(name, spec, with_out(arguments, out))


def with_out(arguments: Sequence[str], out: Path) -> Sequence[str]:
    """`arguments` of a command, and the folder of its run if they name none."""
    named = any(argument == "--out" or argument.startswith("--out=") for argument in arguments)
    return arguments if named else [*arguments, "--out", str(out)]


def on_its_head(name: str, spec: ClusterSpec, arguments: Sequence[str]) -> int:
    """Run `autosync tune` with `arguments` on the head of a cluster like `spec`, made for it; its exit status."""
    say(f"Making an emulated cluster of {len(spec.nodes)} nodes ...")
    with emulated(name, spec) as cluster:
        say(f"Dashboard: {cluster.dashboard_url} (token: {cluster.token_path})")
        sys.stdout.flush()
        command = [sys.executable, "-m", "autosync.tune", *arguments]
        # The driver thinks up strategies; on the head's share of a core it would be what the trials wait for.
        return run_inside(cluster.hosts[0], command, within_quota=False, env=os.environ | {INSIDE: name})
