"""Runs a race: starts workers, makes and records the runs, and writes and prints the outcome."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from autosync.dataset.target_store import TargetStore
from autosync.errors import SpecError
from autosync.race.candidates import PAIRS, RaceSetting, best_baseline
from autosync.race.options import RaceOptions
from autosync.race.plan import PlannedRun, Race
from autosync.race.verdict import RaceVerdict, verdict
from autosync.race.words import outcome_lines, run_in_words
from autosync.report.race import write_race_report
from autosync.runs.race_folder import RaceFolder
from autosync.runs.run_tables import race_table
from autosync.spec import PLAIN, TargetRecord, check_strategy
from autosync.tune.ran_on import ran_on
from autosync.words.cluster import cluster_lines
from autosync.words.quantities import model_in_words
from search_spaces import load_menu
from trials.fleet.lanes import Backend, SideBySide
from trials.opening import BackendOptions, open_backend, read_strategy_file
from trials.to_target import TargetRequest

NOT_REACHED = 1
"""The exit status if no plain run reached the target."""


def run_race(options: RaceOptions, say: Callable[[str], None]) -> int:
    """Start or resume a race; return the exit status. Raises `AutosyncError` for an error that the user can correct."""
    folder = RaceFolder.open(options.out, options.identity(), options.resume)
    choice = BackendOptions(
        options.model,
        workers=options.workers,
        address=options.address,
        capture_seconds=options.capture_seconds,
        cluster=options.cluster,
        nodes_per_trial=options.nodes_per_trial,
        node_wait_seconds=options.node_wait_seconds,
    )
    with open_backend(choice, say) as ready:
        backend = ready.backend
        for line in (*ready.notes, model_in_words(backend.model), *cluster_lines(backend.cluster)):
            say(line)
        return race_on(backend, options, folder, say)


def race_on(backend: Backend, options: RaceOptions, folder: RaceFolder, say: Callable[[str], None]) -> int:
    """Race on `backend` and write the outcome to `folder`; return the exit status."""
    race = _begin(options, folder, backend, say)
    _run(options, folder, backend, race, say)
    return end_race(folder, race, backend.cluster.time, say)


def _begin(options: RaceOptions, folder: RaceFolder, backend: Backend, say: Callable[[str], None]) -> Race:
    """Return the race, with every run recorded earlier."""
    model, cluster = backend.model, backend.cluster
    if options.resume:
        base, source = folder.base(), "the race's own"
        if folder.asked().get("model_digest") != model.digest:
            raise SpecError("--resume needs the same model, but the model has changed; start a new race.")
    elif options.strategy is not None:
        strategy = read_strategy_file(options.strategy)
        # The race compares disciplines, so the base has none.
        base, source = replace(strategy, discipline=PLAIN), str(options.strategy)
    else:
        name, base = best_baseline(model, cluster)
        source = f"{name}, the baseline whose predicted step is the shortest"
    check_strategy(base, model, cluster)
    setting = RaceSetting(model, cluster, base)
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
    say(f"The plain strategy is {source}. It races against {len(race.named) - 1} disciplines, then combinations.")
    for record in folder.records():
        race.note(record)
    if race.done:
        say(f"{len(race.done)} runs are finished already.")
    return race


def _run(options: RaceOptions, folder: RaceFolder, backend: Backend, race: Race, say: Callable[[str], None]) -> None:
    """Make every remaining run, side by side if the back end has lanes."""

    store = TargetStore.create(options.data)

    def next_request(under_way: Collection[TargetRequest]) -> TargetRequest | None:
        planned = race.next([(request.label, request.seed) for request in under_way])
        return None if planned is None else _request(options, planned)

    def keep(record: TargetRecord) -> None:
        folder.append(record)
        store.append(record)
        race.note(record)
        say(run_in_words(len(race.done), record))

    if isinstance(backend, SideBySide):
        backend.train_side_by_side(next_request, keep)
        return
    while (request := next_request(())) is not None:
        keep(backend.train(request))


def _request(options: RaceOptions, planned: PlannedRun) -> TargetRequest:
    return TargetRequest(
        planned.candidate.strategy,
        options.target,
        planned.seed,
        options.time_limit_seconds,
        planned.candidate.name,
        options.out.name,
        planned.rival,
        options.give_up,
    )


def end_race(folder: RaceFolder, race: Race, time: str, say: Callable[[str], None]) -> int:
    """Write and print the outcome; return the exit status. `time` is the cluster's kind of time, such as "paced"."""
    outcome = verdict(race)
    if outcome is None:
        say("No plain run has reached the target, so there is no comparison; raise --most-steps or ease --target.")
        return NOT_REACHED
    result = _outcome_json(race, outcome, time)
    for line in (*race_table(result).lines(), *outcome_lines(race, outcome)):
        say(line)
    folder.write_result(result)
    folder.write_strategy(outcome.returned.strategy)
    say(f"Strategy: {folder.strategy_file}")
    say(f"Report:   {write_race_report(folder)}")
    return 0


def _outcome_json(race: Race, outcome: RaceVerdict, time: str) -> dict[str, Any]:
    def number(value: float) -> float | None:
        return value if math.isfinite(value) else None

    return {
        "winner": outcome.winner.name,
        "proven": outcome.proven,
        "returned": outcome.returned.name,
        "time": time,
        "judged_seeds": list(outcome.judged),
        "places": [
            {
                "name": result.candidate.name,
                "source": result.candidate.source,
                "seeds": result.seeds,
                "reached": result.reached,
                "seconds": number(result.seconds),
                "steps": number(result.steps),
                "step_seconds": number(result.step_seconds),
                "times_as_fast_as_plain": result.over_plain.to_json(),
                "winner_over_it": outcome.over(race.times, result.candidate.name).to_json(),
            }
            for result in outcome.results
        ],
        "faults": race.times.faults,
    }
