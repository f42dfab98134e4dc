"""A race at work: workers are started, runs are made and kept, and the outcome is written and printed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from autosync.errors import SpecError
from autosync.race.candidates import PAIRS, Setting, best_baseline
from autosync.race.options import RaceOptions
from autosync.race.plan import Race
from autosync.race.verdict import Verdict, verdict
from autosync.race.words import outcome_lines, run_in_words
from autosync.report.race import write_race_report
from autosync.runs.race_folder import RaceFolder
from autosync.runs.run_tables import race_table
from autosync.spec import PLAIN, check_strategy
from autosync.tune.ran_on import ran_on
from autosync.words.cluster import cluster_lines
from autosync.words.quantities import model_in_words
from search_spaces import load_menu
from trials.fleet.lanes import Backend
from trials.opening import Choice, opened, read_strategy_file
from trials.to_target import TargetRequest

NOT_REACHED = 1
"""Exit status where no plain run reached the target."""


def run_race(options: RaceOptions, say: Callable[[str], None]) -> int:
    """Race, or go on with a race; the exit status. Raises `AutosyncError` for what the user can put right."""
    folder = RaceFolder.open(options.out, options.identity(), options.resume)
    choice = Choice(
        options.model,
        workers=options.workers,
        address=options.address,
        capture_seconds=options.capture_seconds,
        cluster=options.cluster,
    )
    with opened(choice) as ready:
        backend = ready.backend
        for line in (*ready.notes, model_in_words(backend.model), *cluster_lines(backend.cluster)):
            say(line)
        return race_on(backend, options, folder, say)


def race_on(backend: Backend, options: RaceOptions, folder: RaceFolder, say: Callable[[str], None]) -> int:
    """Race on `backend`, and write the outcome to `folder`; the exit status."""
    race = _begun(options, folder, backend, say)
    _run(options, folder, backend, race, say)
    return end_race(folder, race, backend.cluster.time, say)


def _begun(options: RaceOptions, folder: RaceFolder, backend: Backend, say: Callable[[str], None]) -> Race:
    """The race with all that was run before."""
    model, cluster = backend.model, backend.cluster
    if options.resume:
        base, source = folder.base(), "the race's own"
        if folder.asked().get("model_digest") != model.digest:
            raise SpecError("--resume needs the same model, but it has changed since the race began; start a new one.")
    elif options.strategy is not None:
        found = read_strategy_file(options.strategy)
        base, source = replace(found, discipline=PLAIN), str(options.strategy)  # disciplines are what races
    else:
        name, base = best_baseline(model, cluster)
        source = f"{name}, the baseline whose predicted step is the shortest"
    check_strategy(base, model, cluster)
    setting = Setting(model, cluster, base)
    offers = load_menu(options.menu).of(setting.circumstances)
    race = Race(
        setting.candidates(offers),
        tuple(setting.combinations(offers, PAIRS)),
        options.seeds,
        options.combinations,
        options.runs,
    )
    if not options.resume:
        more: dict[str, Any] = {"base": base.to_json(), "model_digest": model.digest, "seeds": options.seeds}
        more["ran_on"] = ran_on(options).to_json()
        folder.write_asked(options.identity(), more, cluster)
    say(f"The plain strategy is {source}. Beside it race {len(race.named) - 1} disciplines, then combinations of them.")
    for record in folder.records():
        race.note(record)
    if race.done:
        say(f"{len(race.done)} runs are there already.")
    return race


def _run(options: RaceOptions, folder: RaceFolder, backend: Backend, race: Race, say: Callable[[str], None]) -> None:
    """Make every run that is still to come."""
    while (planned := race.next()) is not None:
        request = TargetRequest(
            planned.candidate.strategy,
            options.target,
            planned.seed,
            options.time_limit_seconds,
            planned.candidate.name,
            options.out.name,
            planned.rival,
            options.give_up,
        )
        record = backend.train(request)
        folder.append(record)
        race.note(record)
        say(run_in_words(len(race.done), planned, record))


def end_race(folder: RaceFolder, race: Race, time: str, say: Callable[[str], None]) -> int:
    """Write and print the outcome; the exit status. `time` is that of the cluster."""
    found = verdict(race)
    if found is None:
        say("No plain run has reached the target, so nothing can be compared; give it more steps, or a target nearer.")
        return NOT_REACHED
    result = _json(race, found, time)
    for line in (*race_table(result).lines(), *outcome_lines(race, found)):
        say(line)
    folder.write_result(result)
    folder.write_strategy(found.returned.strategy)
    say(f"Strategy: {folder.strategy_file}")
    say(f"Report:   {write_race_report(folder)}")
    return 0


def _json(race: Race, found: Verdict, time: str) -> dict[str, Any]:
    def number(value: float) -> float | None:
        return value if math.isfinite(value) else None

    return {
        "winner": found.winner.name,
        "proven": found.proven,
        "returned": found.returned.name,
        "time": time,
        "judged_seeds": list(found.judged),
        "places": [
            {
                "name": each.candidate.name,
                "source": each.candidate.source,
                "seeds": each.seeds,
                "reached": each.reached,
                "seconds": number(each.seconds),
                "steps": number(each.steps),
                "step_seconds": number(each.step_seconds),
                "times_as_fast_as_plain": each.over_plain.to_json(),
                "winner_over_it": found.over(race.times, each.candidate.name).to_json(),
            }
            for each in found.places
        ],
        "faults": race.times.faults,
    }
