"""The finals: they end once they decide, and continue for the best two if a gain is likely but not proven."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import final

import numpy as np
import pytest

from autosync.errors import NodesLostError
from autosync.search.verdict.judging import Verdict
from autosync.search.verdict.looks import Looks
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord
from autosync.tune.finals import hold_finals
from autosync.tune.job import Job
from tests.tune.pretend import CLUSTER, MODEL, PretendBackend, pretended_job, printed
from tests.tune.records import baseline, found, record
from trials.trial import TrialRequest

ROUNDS = 4
BASELINE, FIRST, SECOND = record("all_reduce_25mb", [0.2]), *(record(strategy, [0.19]) for strategy in found(2))
CHOSEN = (FIRST, SECOND, BASELINE)
BASELINES = {baseline("all_reduce_25mb").digest}


@final
class NoisyBackend:
    """Strategies take `seconds`, with relative `noise` from turn to turn; nodes are lost after `lasts` turns."""

    model: ModelSpec = MODEL
    cluster: ClusterSpec = CLUSTER

    def __init__(
        self, seconds: Sequence[float], noise: float, lasts: int = 1000, seed: int = 0, turn_seconds: float = 0.0
    ) -> None:
        self._seconds = {finalist.strategy.digest: taken for finalist, taken in zip(CHOSEN, seconds, strict=True)}
        self._noise = noise
        self._lasts = lasts
        self._generator = np.random.default_rng(seed)
        self._turn_seconds = turn_seconds
        self.seconds = 0.0
        self.turns: list[str] = []

    def run(self, request: TrialRequest) -> RuntimeRecord:
        if len(self.turns) == self._lasts:
            raise NodesLostError("All nodes are gone.")
        self.turns.append(request.strategy.digest)
        seconds = self._seconds[request.strategy.digest] * np.exp(self._noise * self._generator.standard_normal())
        self.seconds += self._turn_seconds
        record = replace(PretendBackend().run(request), step_seconds=(float(seconds),) * 5)
        return replace(record, total_seconds=self._turn_seconds) if self._turn_seconds else record


@dataclass(frozen=True)
class TimedJob(Job):
    """A job on the clock of its back end."""

    clock: NoisyBackend = field(kw_only=True)

    @property
    def seconds_gone(self) -> float:
        return self.clock.seconds


def held(directory: Path, backend: NoisyBackend, **values: object) -> tuple[int, Verdict, str]:
    job = pretended_job(directory, backend, rounds=ROUNDS, **values)
    rounds, verdict = hold_finals(job, CHOSEN, BASELINES)
    assert sum(map(len, rounds)) == len(backend.turns)
    return len(rounds), verdict, printed(job)


def test_one_finalist_is_measured_again_as_one(tmp_path: Path) -> None:
    job = pretended_job(tmp_path, NoisyBackend((0.1, 0.15, 0.2), 0.001), rounds=1)
    hold_finals(job, (BASELINE,), BASELINES)
    assert "Re-measuring the 1 finalist in turns, for up to 1 round ..." in printed(job)


def test_finals_that_decide_are_over_at_the_first_look(tmp_path: Path) -> None:
    backend = NoisyBackend((0.1, 0.15, 0.2), 0.001)
    rounds, verdict, said = held(tmp_path, backend)
    assert (rounds, verdict.rounds, verdict.winner, verdict.note) == (3, 3, FIRST.strategy, "")
    assert "time more" not in said
    assert "times more" not in said


def test_a_finalist_that_has_surely_lost_takes_no_more_turns(tmp_path: Path) -> None:
    """The best two differ by less than their noise, so that the verdict stays open when the third has lost."""
    backend = NoisyBackend((0.198, 0.4, 0.2), 0.01)
    rounds, verdict, _ = held(tmp_path, backend)
    turns = Counter(backend.turns)
    assert turns[SECOND.strategy.digest] == 3
    assert turns[FIRST.strategy.digest] == turns[BASELINE.strategy.digest] == rounds > ROUNDS
    assert verdict.candidate == FIRST.strategy


def test_the_winner_is_held_against_the_fastest_default_of_frameworks_too(tmp_path: Path) -> None:
    job = pretended_job(tmp_path, NoisyBackend((0.1, 0.3, 0.2), 0.001), rounds=ROUNDS)
    _, over_itself = hold_finals(job, CHOSEN, BASELINES, BASELINES)
    assert over_itself.over_default is not None
    assert (over_itself.over_default.speedup, over_itself.over_default.interval) == (
        over_itself.speedup,
        over_itself.interval,
    )
    job = pretended_job(tmp_path / "other", NoisyBackend((0.1, 0.15, 0.3), 0.001), rounds=ROUNDS)
    _, verdict = hold_finals(job, CHOSEN, {SECOND.strategy.digest}, BASELINES)
    assert verdict.speedup == pytest.approx(1.5, rel=0.01)
    assert verdict.over_default is not None
    low, high = verdict.over_default.interval
    assert low < verdict.over_default.speedup < high
    assert verdict.over_default.speedup == pytest.approx(3.0, rel=0.01)
    assert (verdict.over_default.label, verdict.over_default.rounds) == ("all_reduce_25mb", 3)


def test_a_default_that_wins_is_held_against_none(tmp_path: Path) -> None:
    job = pretended_job(tmp_path, NoisyBackend((0.3, 0.3, 0.1), 0.001), rounds=ROUNDS)
    assert hold_finals(job, CHOSEN, BASELINES, BASELINES)[1].over_default is None


def test_finals_without_a_promise_are_over(tmp_path: Path) -> None:
    rounds, verdict, _ = held(tmp_path, NoisyBackend((0.24, 0.23, 0.2), 0.05))
    assert (rounds, verdict.winner, verdict.note) == (ROUNDS, BASELINE.strategy, "")


def test_a_gain_that_the_finals_promise_is_proven_by_more_rounds_of_the_best_two_alone(tmp_path: Path) -> None:
    backend = NoisyBackend((0.18, 0.3, 0.2), 0.05)
    rounds, verdict, said = held(tmp_path, backend)
    assert ROUNDS < rounds <= Looks(ROUNDS).most
    assert (verdict.rounds, verdict.winner, verdict.beyond_noise) == (rounds, FIRST.strategy, True)
    assert set(backend.turns[-2 * (rounds - ROUNDS) :]) == {FIRST.strategy.digest, *BASELINES}
    assert "re-measuring these two for up to 8 more rounds" in said
    assert verdict.note == ""


def test_a_verdict_that_is_decided_but_vague_takes_the_rounds_that_were_asked_for(tmp_path: Path) -> None:
    """Three rounds prove a gain of 5 times, but its interval is wide."""
    rounds, verdict, _ = held(tmp_path, NoisyBackend((0.1, 0.5, 0.5), 0.02))
    assert verdict.interval is not None
    assert verdict.winner == FIRST.strategy
    assert rounds == ROUNDS


@pytest.mark.thorough
def test_where_there_is_nothing_to_gain_more_rounds_seldom_prove_a_gain(tmp_path: Path) -> None:
    """With a chance of 2.5 % at most, over 3 of 40 come up once in 50 times."""
    wins = 0
    for number in range(40):
        backend = NoisyBackend((0.2, 0.2, 0.2), 0.05, seed=number)
        wins += held(tmp_path / str(number), backend)[1].beyond_noise
    assert wins <= 3


def test_a_spent_time_budget_leaves_one_round_which_proves_nothing(tmp_path: Path) -> None:
    backend = NoisyBackend((0.18, 0.3, 0.2), 0.05)
    job = pretended_job(tmp_path, backend, rounds=ROUNDS, time_budget_seconds=5.0)
    rounds, verdict = hold_finals(replace(job, begin=time.monotonic() - 60.0), CHOSEN, BASELINES)
    assert (len(rounds), verdict.rounds, verdict.beyond_noise) == (1, 1, False)
    assert set(backend.turns) == {FIRST.strategy.digest, *BASELINES}
    assert verdict.note == "More rounds of these two might settle it, but the time budget has no room for them."
    assert "The time budget has no room to re-measure guided " in printed(job)


def test_short_of_time_the_best_two_go_on_and_the_finals_end_in_time(tmp_path: Path) -> None:
    """Turns take 8 s. A budget of 125 s has room for six rounds of two finalists, and not for six of three."""
    backend = NoisyBackend((0.19, 0.195, 0.2), 0.02, turn_seconds=8.0)
    plain = pretended_job(tmp_path, backend, rounds=6, time_budget_seconds=125.0)
    job = TimedJob(**vars(plain), clock=backend)
    rounds, verdict = hold_finals(job, [replace(record, total_seconds=13.8) for record in CHOSEN], BASELINES)
    assert backend.seconds <= 125.0
    turns = Counter(backend.turns)
    assert turns[BASELINE.strategy.digest] == len(rounds) == verdict.rounds >= 6
    assert min(turns.values()) < 6


def test_nodes_lost_in_more_rounds_leave_the_first_verdict_or_shrink_the_cluster(tmp_path: Path) -> None:
    lasts = 3 * ROUNDS + 5
    job = pretended_job(tmp_path / "one", NoisyBackend((0.18, 0.3, 0.2), 0.05, lasts), rounds=ROUNDS)
    rounds, verdict = hold_finals(job, CHOSEN, BASELINES)
    assert (len(rounds), verdict.rounds, verdict.note) == (ROUNDS + 2, ROUNDS + 2, "All nodes are gone.")
    shrinking = pretended_job(
        tmp_path / "two", NoisyBackend((0.18, 0.3, 0.2), 0.05, lasts), rounds=ROUNDS, on_node_loss="shrink"
    )
    with pytest.raises(NodesLostError):
        hold_finals(shrinking, CHOSEN, BASELINES)
