"""Runs `autosync race` on an existing cluster, or on a cluster emulated for the race."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autosync.engine.core.registry import check_engine_installed
from autosync.race.job import run_race
from autosync.race.options import RaceOptions
from autosync.runs.race_folder import RaceFolder, is_race
from autosync.spec import Target
from autosync.spec.target import metric_of
from autosync.terminal import say
from autosync.tune.directory import claim_run
from autosync.tune.emulation import on_its_head, with_out
from autosync.tune.options import OptionsError
from autosync.tune.ran_on import is_inside, ran_on
from autosync.words.commands import resume_command
from autosync.zoo import check_model_name
from search_spaces import load_menu
from trials.cluster.file import cluster_to_emulate, read_cluster_file
from trials.emulate.rootless import begin_as_root


def race(out: Path | None, option_values: Mapping[str, Any], arguments: Sequence[str]) -> int:
    """Run the race of the command's `option_values`; return the exit status.

    `arguments` are those of the command line.
    """
    options = options_of(out, option_values)
    check_model_name(options.model)
    load_menu(options.menu)
    if options.cluster is not None:
        read_cluster_file(options.cluster)
    check_engine_installed()
    if options.emulate is None or is_inside():
        with claim_run(options.out, is_default=out is None, resume=options.resume) as claimed:
            options = replace(options, out=claimed)
            try:
                return run_race(options, say)
            except KeyboardInterrupt:
                for line in interruption_lines(options, arguments):
                    say(line)
                raise
    name, spec = f"race{os.getpid()}", cluster_to_emulate(options.emulate)
    begin_as_root(name)
    with claim_run(options.out, is_default=out is None, resume=options.resume) as claimed:
        RaceFolder.open(claimed, options.identity(), options.resume)
        return on_its_head(name, spec, ["race", *with_out(arguments, claimed)])


def interruption_lines(options: RaceOptions, arguments: Sequence[str]) -> list[str]:
    """Return the messages for a race that Ctrl-C ended; the last message has the command that resumes the race."""
    if not is_race(options.out):
        return ["Interrupted before the first run."]
    again = resume_command(["race", *arguments], str(options.out), ran_on(options))
    return ["Interrupted; every finished run is kept.", f"Go on with: {again}"]


def options_of(out: Path | None, option_values: Mapping[str, Any]) -> RaceOptions:
    """Build the race options from the command's values. Raises `AutosyncError`."""
    if out is None:
        if option_values["resume"]:
            raise OptionsError("--resume needs --out; name the directory of the race to resume.")
        stem = option_values["model"].replace(":", "-").replace("/", "-")
        out = Path("runs") / f"{stem}-target-{time.strftime('%Y%m%d-%H%M%S')}"
    target = Target(*metric_of(option_values["target"]), option_values["evaluate_every"], option_values["most_steps"])
    target_options = ("target", "evaluate_every", "most_steps")
    rest = {name: value for name, value in option_values.items() if name not in target_options}
    return RaceOptions(target=target, out=out, **rest)
