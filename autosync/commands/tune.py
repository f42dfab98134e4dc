"""The command `autosync tune`."""

import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from autosync.commands.shell import INTERRUPTED, PLACE, SETTINGS, run_command, without_rays_own_news
from autosync.engine.capture_apart import CAPTURE_SECONDS
from autosync.race.options import OBJECTIVES, OF_RACE, check_for_race
from autosync.search.registry import SEARCHERS
from autosync.terminal import say
from autosync.tune.options import ON_NODE_LOSS, SIMULATORS, TRAINING_STEPS, OptionsError, TuneOptions, flag


@click.command("tune", context_settings=SETTINGS)
@click.option(
    "--model",
    "--task",
    "model",
    required=True,
    help="A zoo model such as bert, or your own Keras model as package.module:function.",
)
@click.option(
    "--objective",
    type=click.Choice(OBJECTIVES),
    default=OBJECTIVES[0],
    help="The shortest step, or the shortest time to a --target, to which disciplines race.",
)
@click.option("--target", help="With --objective target: what training is to reach, such as loss=0.08.")
@click.option("--menu", help="With it: a menu in search_spaces/menus, or package.module:MENU.  [default: systems]")
@click.option("--seeds", type=int, help="With it: seeds that each discipline trains on.  [default: 3]")
@click.option("--strategy", type=Path, help="With it: the plain strategy, a file.  [default: the best baseline]")
@click.option("--evaluate-every", type=int, help="With it: steps after which the target is looked at.  [default: 10]")
@click.option("--most-steps", type=int, help="With it: steps after which a run is given up.  [default: 2000]")
@click.option("--trials", default=200, help="Strategies to time, baselines included.")
@click.option("--time-budget", "time_budget_seconds", type=float, help="Seconds after which the search ends.")
@click.option("--workers", type=int, help="Worker processes; one a node of a cluster, 4 on a single CPU machine.")
@click.option("--space", help="Search space: a file in search_spaces, or package.module:SPACE.  [default: by model]")
@click.option("--without-rule", "without_rules", multiple=True, help="A rule the space does without; repeatable.")
@click.option(
    "--try-first", multiple=True, type=Path, help="A strategy to time first, such as one found elsewhere; repeatable."
)
@click.option("--searcher", default="guided", help=f"One of {', '.join(SEARCHERS)}.")
@click.option("--simulator", default="auto", help=f"Ranks candidates: one of {', '.join(SIMULATORS)}.")
@click.option("--warm-start", type=Path, help="Checkpoint of a simulator to start from.  [default: with auto, ours]")
@click.option("--round-size", type=int, help="Trials of a round, all of which may run side by side.  [default: 4]")
@click.option("--seed", default=0, help="Same seed and same measurements give the same proposals.")
@click.option("--out", type=Path, help="Directory of the run.  [default: runs/MODEL-TIME]")
@click.option(
    "--data", default=Path("data"), type=PLACE, help="Directory or address of all records ever measured (Parquet)."
)
@click.option(
    "--replay", type=PLACE, help="Search these records, and no cluster; --model is a cell: bert-mini@two_racks."
)
@click.option("--resume", is_flag=True, help="Go on with the run in --out.")
@click.option("--warmup", "warmup_steps", default=10, help="Steps thrown away before timing.")
@click.option("--steps", "timed_steps", default=40, help="Steps timed in each trial.")
@click.option("--trial-time-limit", "trial_time_limit_seconds", default=300.0, help="Seconds a trial may take.")
@click.option("--stop-factor", default=1.25, help="A trial surely this much slower than the best is stopped early.")
@click.option("--patience", type=int, help="Trials in a row without a better strategy before a search may end early.")
@click.option("--training-steps", default=TRAINING_STEPS, help="Steps to train later: what a shorter one is worth.")
@click.option(
    "--rounds",
    default=6,
    help="Times the finalists are measured again, in turns; the best two oftener, if in doubt.",
)
@click.option(
    "--counterfactuals", default=0, help="Decisions of the winner to revert, each timed against it at the end."
)
@click.option(
    "--tuned-all-reduce",
    is_flag=True,
    help="Time a grid of bucket sizes and algorithms too, after the search, as a baseline tuned by hand.",
)
@click.option("--address", help="Ray cluster to join.  [default: $RAY_ADDRESS, or a local one is started]")
@click.option("--cluster", type=Path, help="Cluster file that states nodes, racks and links.")
@click.option("--profile", type=Path, help="What paced passes follow: the model on another device, a JSON file.")
@click.option("--emulate", help="Make a cluster for this run: 4x200mbit, or a cluster file. Needs Linux.")
@click.option(
    "--or-local", is_flag=True, help="With --emulate: where no cluster can be made, use workers of this machine."
)
@click.option("--nodes-per-trial", type=int, help="Nodes a trial gets; trials run side by side.  [default: all nodes]")
@click.option("--on-node-loss", default="wait", help=f"When nodes lack for a trial: one of {', '.join(ON_NODE_LOSS)}.")
@click.option("--node-wait", "node_wait_seconds", default=600.0, help="Seconds to wait for a node to come back.")
@click.option("--probe/--no-probe", default=True, help="Measure the links first, or take them as stated or assumed.")
@click.option(
    "--reprobe", is_flag=True, help="With --resume: measure the links again, and check that they are as before."
)
@click.option(
    "--capture-time-limit",
    "capture_time_limit_seconds",
    default=CAPTURE_SECONDS,
    help="Seconds that building and capturing the model may take.",
)
@click.option("--working-dir", type=Path, help="Directory that Ray ships to every node, with your model in it.")
@click.pass_context
def command(context: click.Context, /, out: Path | None, objective: str, **given: Any) -> int:
    """Find the fastest gradient-synchronization strategy for a model on this cluster, by measuring.

    Models are Keras models on TensorFlow.
    """
    stated = [name for name in given if context.get_parameter_source(name) is not ParameterSource.DEFAULT]
    if objective == "target":
        check_for_race(stated)
        return _race(out, given)
    if of_race := [name for name in OF_RACE if name in stated]:
        raise OptionsError(f"{flag(of_race[0])} is for --objective target; add that, or leave it out.")
    given = {name: value for name, value in given.items() if name not in OF_RACE}
    out_is_default = out is None
    if out is None:
        if given["resume"] and given["replay"] is None:
            raise OptionsError("--resume needs --out, the directory of the run to go on with.")
        stem = given["model"].replace(":", "-").replace("/", "-")
        out = Path("runs") / f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    elif given["replay"] is not None:
        raise OptionsError("--replay searches recorded trials and keeps nothing; leave --out out.")
    options = TuneOptions.create(out=out, **given)
    try:
        return _search(options, out_is_default)
    except KeyboardInterrupt:
        return INTERRUPTED


def _race(out: Path | None, given: Mapping[str, Any]) -> int:
    """Let disciplines race to a target, on a cluster made for it or on the one there is."""
    from autosync.race.command import race

    without_rays_own_news()
    try:
        return race(out, given, sys.argv[1:])
    except KeyboardInterrupt:
        return INTERRUPTED


def _search(options: TuneOptions, out_is_default: bool) -> int:
    """Run the search among records, on a cluster made for it, or on the existing one, as `options` ask."""
    if options.replay is not None:
        from autosync.tune.recorded.searching import search_recorded

        return search_recorded(options, say)
    without_rays_own_news()  # before any module that imports Ray
    if options.emulate is not None:
        from autosync.tune.emulation import tune_emulated
        from autosync.tune.ran_on import is_inside

        if not is_inside():
            status = tune_emulated(options.emulate, options, sys.argv[1:], out_is_default)
            if status is not None:
                return status
            options = options.model_copy(update={"emulate": None, "or_local": False})
    from autosync.tune.session import tune  # Ray and pyarrow are imported only once the options are right

    return tune(options, out_is_default)


main = partial(run_command, command)
