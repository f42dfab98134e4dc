"""`autosync tune --objective target`: a race on the cluster there is, or on one that is made for it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autosync.engine.zoo import check_model_name
from autosync.race.job import run_race
from autosync.race.options import RaceOptions
from autosync.runs.race_folder import RaceFolder, is_race
from autosync.spec import Target
from autosync.spec.target import metric_of
from autosync.terminal import say
from autosync.tune.directory import claimed_run
from autosync.tune.emulation import on_its_head, with_out
from autosync.tune.options import OptionsError
from autosync.tune.ran_on import is_inside, ran_on
from autosync.words.commands import resume_command
from search_spaces import load_menu
from trials.cluster.file import cluster_to_emulate, read_cluster_file
from trials.emulate.ordinary import begin_as_root

DEFAULTS: dict[str, Any] = {
    "menu": RaceOptions.menu,
    "seeds": RaceOptions.seeds,
    "evaluate_every": Target.every,
    "most_steps": Target.steps,
}


def race(out: Path | None, given: Mapping[str, Any], arguments: Sequence[str]) -> int:
    """Race as the `given` options of the command ask, which was called with `arguments`; the exit status."""
    options = options_of(out, given)
    check_model_name(options.model)
    load_menu(options.menu)
    if options.cluster is not None:
        read_cluster_file(options.cluster)
    if options.emulate is None or is_inside():
        with claimed_run(options.out, is_default=out is None, resume=options.resume) as claimed:
            options = replace(options, out=claimed)
            try:
                return run_race(options, say)
            except KeyboardInterrupt:
                for line in interrupted_lines(options, arguments):
                    say(line)
                raise
    name, spec = f"tune{os.getpid()}", cluster_to_emulate(options.emulate)
    begin_as_root(name)
    with claimed_run(options.out, is_default=out is None, resume=options.resume) as claimed:
        RaceFolder.open(claimed, options.identity(), options.resume)
        return on_its_head(name, spec, with_out(arguments, claimed))


def interrupted_lines(options: RaceOptions, arguments: Sequence[str]) -> list[str]:
    """Sentences for a race that Ctrl-C ended; the last one has the command that resumes it."""
    if not is_race(options.out):
        return ["Interrupted before the first run."]
    again = resume_command(["tune", *arguments], str(options.out), ran_on(options))
    return ["Interrupted; every run that was over is kept.", f"Go on with: {again}"]


def options_of(out: Path | None, given: Mapping[str, Any]) -> RaceOptions:
    """The options of the race that the command was given. Raises `AutosyncError`."""
    stated = {name: DEFAULTS[name] if given[name] is None else given[name] for name in DEFAULTS}
    if given["target"] is None:
        raise OptionsError("--objective target needs a --target, such as loss=0.08.")
    if out is None:
        if given["resume"]:
            raise OptionsError("--resume needs --out, the directory of the race to go on with.")
        stem = given["model"].replace(":", "-").replace("/", "-")
        out = Path("runs") / f"{stem}-target-{time.strftime('%Y%m%d-%H%M%S')}"
    return RaceOptions(
        model=given["model"],
        target=Target(*metric_of(given["target"]), stated["evaluate_every"], stated["most_steps"]),
        out=out,
        menu=stated["menu"],
        seeds=stated["seeds"],
        runs=given["trials"],
        time_limit_seconds=given["trial_time_limit_seconds"],
        strategy=given["strategy"],
        resume=given["resume"],
        workers=given["workers"],
        address=given["address"],
        cluster=given["cluster"],
        emulate=given["emulate"],
        capture_seconds=given["capture_time_limit_seconds"],
    )
