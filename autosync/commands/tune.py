"""The command `autosync tune`."""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import cloup

from autosync.commands.config import config_option
from autosync.commands.options import (
    address_option,
    cluster_option,
    emulate_option,
    framework_option,
    model_option,
    node_wait_option,
    nodes_per_trial_option,
    patience_option,
    profile_option,
    searcher_option,
    simulator_option,
    timed_steps_option,
    training_steps_option,
    warmup_option,
    workers_option,
    working_dir_option,
)
from autosync.commands.output import Output, output_options
from autosync.commands.shell import INTERRUPTED, NOT_DONE, SETTINGS, run_command
from autosync.commands.values import FILE, PLACE, complete_among, rule_names, space_names
from autosync.terminal import Report, say
from autosync.tune.options import ON_NODE_LOSS, OptionsError, TuneOptions, default_folder
from trials.capture_in_subprocess import CAPTURE_SECONDS


@cloup.command("tune", context_settings=SETTINGS)
@cloup.option_group(
    "Model",
    model_option,
    framework_option,
    click.option(
        "--capture-time-limit",
        "capture_time_limit_seconds",
        default=CAPTURE_SECONDS,
        help="Seconds that building and capturing the model may take.",
    ),
    working_dir_option,
)
@cloup.option_group(
    "Search",
    click.option("--trials", default=200, help="Strategies to time, baselines included."),
    click.option(
        "--time-budget",
        "time_budget_seconds",
        type=float,
        help="Seconds of the whole run: starting Ray, capturing, probing, trials, finals and report. (The time limits "
        "of Optuna and Ray Tune count trials alone.) Creating a cluster with --emulate comes on top.",
    ),
    patience_option,
    training_steps_option,
    searcher_option,
    simulator_option,
    click.option(
        "--warm-start",
        type=FILE,
        help="Checkpoint of a simulator to start from.  [default for auto: the shipped one]",
    ),
    click.option("--round-size", type=int, help="Trials per round, all of which may run at once.  [default: 4]"),
    click.option("--seed", default=0, help="The same seed and the same measurements give the same proposals."),
)
@cloup.option_group(
    "Search space",
    click.option(
        "--space",
        shell_complete=complete_among(space_names),
        help="Search space: a file in search_spaces, or package.module:SPACE.  [default: by model]",
    ),
    click.option(
        "--without-rule",
        "without_rules",
        multiple=True,
        shell_complete=complete_among(rule_names),
        help="A rule to remove from the space; repeatable.",
    ),
    click.option(
        "--try-first",
        multiple=True,
        type=FILE,
        help="A strategy to time first, such as one found elsewhere; repeatable.",
    ),
)
@cloup.option_group(
    "Trials",
    warmup_option,
    timed_steps_option,
    click.option("--trial-time-limit", "trial_time_limit_seconds", default=300.0, help="Seconds a trial may take."),
    click.option(
        "--stop-factor",
        default=1.25,
        help="A trial that is surely this many times as slow as the best is stopped early.",
    ),
)
@cloup.option_group(
    "Finals",
    click.option(
        "--rounds",
        default=6,
        help="Rounds in which the finalists are re-measured in turns; the best two get more if the verdict is open.",
    ),
    click.option(
        "--counterfactuals",
        default=0,
        help="Number of the winner's decisions to revert at the end, each timed against the winner.",
    ),
    click.option(
        "--tuned-all-reduce",
        is_flag=True,
        help="After the search, also time a grid of bucket sizes and algorithms, as a baseline tuned by hand.",
    ),
)
@cloup.option_group(
    "Cluster",
    address_option,
    workers_option,
    cluster_option,
    emulate_option,
    click.option(
        "--or-local", is_flag=True, help="With --emulate: use workers of this machine if no cluster can be emulated."
    ),
    profile_option,
    nodes_per_trial_option,
    click.option(
        "--on-node-loss",
        default="wait",
        shell_complete=complete_among(lambda: ON_NODE_LOSS),
        help=f"If too few nodes are left for a trial: one of {', '.join(ON_NODE_LOSS)}.",
    ),
    node_wait_option,
    click.option("--probe/--no-probe", default=True, help="Measure the links first, or use stated or assumed rates."),
    click.option(
        "--reprobe", is_flag=True, help="With --resume: measure the links again, and check that they are unchanged."
    ),
)
@cloup.option_group(
    "Files",
    click.option("--out", type=FILE, help="Directory of the run.  [default: runs/MODEL-TIME]"),
    click.option(
        "--data", default=Path("data"), type=PLACE, help="Directory or address of all records ever measured (Parquet)."
    ),
    click.option("--resume", is_flag=True, help="Resume the run in --out."),
    config_option,
)
@output_options("Print a JSON object per event to stdout, and messages to stderr.")
def command(out: Path | None, output: Output, **stated: Any) -> int:
    """Find the fastest gradient-synchronization strategy for a model on this cluster, by measuring.

    Models are Keras models on TensorFlow, or PyTorch modules.
    """
    out_is_default = out is None
    if out is None:
        if stated["resume"]:
            raise OptionsError("--resume needs --out, the directory of the run to resume.")
        out = default_folder(stated["model"])
    options = TuneOptions.create(out=out, **stated)
    try:
        with output.channel() as report:  # before any module that imports Ray
            return _search(options, out_is_default, output, report)
    except KeyboardInterrupt:
        return INTERRUPTED


def _search(options: TuneOptions, out_is_default: bool, output: Output, report: Report) -> int:
    """Run the search on a cluster made for it, or on the existing one, as `options` state; return the exit status."""
    if options.emulate is not None:
        from autosync.tune.emulation import tune_on_emulation
        from autosync.tune.ran_on import is_inside

        if not is_inside():
            status = tune_on_emulation(options.emulate, options, sys.argv[1:], out_is_default)
            if status is not None:
                return status
            options = options.model_copy(update={"emulate": None, "or_local": False})
    from autosync.tune.events import observer_of
    from autosync.tune.session import tune  # Ray and pyarrow are imported only once the options are valid

    observer = observer_of(output.quiet, output.verbose, report if output.as_json else None)
    return 0 if tune(options, sys.argv[1:], observer, out_is_default) else NOT_DONE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `autosync tune`; return its exit status. Flags of earlier versions that are commands of their own now run
    these, with a note.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    for flag, value, name, renamed in MOVED:
        if (remaining := _without(words, flag, value)) is not None:
            say(
                f"tune: {flag} is now the command `autosync {name}`; this version still accepts the flag.",
                err=True,
            )
            moved = [*remaining, *([] if renamed is None else [renamed, _value_of(words, flag) or ""])]
            sys.argv[1:] = moved  # a race prints them in the command that resumes it
            status: int = import_module(f"autosync.commands.{name}").main(moved)
            return status
    return run_command(command, arguments)


MOVED = (("--objective", "target", "race", None), ("--replay", None, "replay", "--data"))
"""Flags of earlier versions: the flag, the value that matters (None: any), the command, and the flag of the value
there."""


def _value_of(words: Sequence[str], flag: str) -> str | None:
    """The value of `flag` in `words`, or None if it is missing."""
    for place, word in enumerate(words):
        if word == flag and place + 1 < len(words):
            return words[place + 1]
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
    return None


def _without(words: Sequence[str], flag: str, wanted: str | None) -> list[str] | None:
    """`words` without `flag` and its value; None if `flag` is missing or its value is not `wanted`."""
    value = _value_of(words, flag)
    if value is None or (wanted is not None and value != wanted):
        return None
    kept = list(words)
    if flag in kept:
        del kept[kept.index(flag) : kept.index(flag) + 2]
    return [word for word in kept if not word.startswith(f"{flag}=")]
