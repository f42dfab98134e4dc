"""AR-Topk's formulas and controllers, on the paper's own table and on changing networks."""

from __future__ import annotations

import statistics

import pytest

from autosync.control import controller_of
from autosync.control.formula import exchange_seconds, knee
from autosync.control.protocol import Controller
from autosync.errors import SpecError
from autosync.spec import Discipline, Fidelity, Probed, StepReport, Strategy, TopKTransport
from studies.literature.formulas import TABLE
from studies.literature.formulas import WAYS as BY_NAME

WAYS = tuple(BY_NAME.values())


def test_the_formulas_tell_the_winners_that_were_measured_and_their_times() -> None:
    wrong = []
    for (_, parameters, gbit), rows in TABLE.items():
        probed = Probed(1e-3, 4 * parameters * 8 / (gbit * 1e9))
        for ratio, measured in rows.items():
            predicted = [1e3 * exchange_seconds(way, ratio, 8, probed) for way in WAYS]
            assert predicted.index(min(predicted)) == measured.index(min(measured)), (parameters, gbit, ratio)
            wrong += [abs(ours - theirs) / theirs for ours, theirs in zip(predicted, measured, strict=True)]
    assert statistics.median(wrong) <= 0.03
    assert max(wrong) <= 0.11


@pytest.mark.parametrize("ratio", [1.0, 0.1, 0.001])
@pytest.mark.parametrize("message", [0.0, 1e-4, 1e-2])
def test_between_two_replicas_gathering_all_is_never_slower(ratio: float, message: float) -> None:
    gathered, *reduced = [exchange_seconds(way, ratio, 2, Probed(message, 0.3)) for way in WAYS]
    assert gathered <= min(reduced)


def controller(fidelity: Fidelity, replicas: int = 4) -> Controller:
    names = tuple(f"node{number}/cpu:0" for number in range(replicas))
    made = controller_of(Strategy(names, (), Discipline(fidelity=fidelity)))
    assert made is not None
    return made


def steps(made: Controller, ratios: tuple[float, ...], links: Probed, count: int, passes: float = 0.06) -> list[int]:
    """The transports of `count` steps, whose times are those of the formula for these `links`."""
    transports = []
    for _ in range(count):
        decision = made.decide()
        assert decision.transport is not None
        seconds = passes + exchange_seconds(WAYS[decision.transport], ratios[decision.ratio or 0], 4, links)
        energies = (tuple(0.2 + 0.8 * ratio**0.25 for ratio in ratios),) * 4 if decision.watches else ()
        made.observe(StepReport(decision, 1.0, seconds=seconds, energies=energies))
        transports.append(decision.transport)
    return transports


def test_the_transport_follows_a_rate_that_falls_and_one_that_rises_again() -> None:
    """Four replicas, 4 MB, ratio 0.01: first 400 Mbit/s, then 20 Mbit/s, with messages of a millisecond."""
    fast, slow = (Probed(1e-3, 32 / rate) for rate in (400, 20))
    made = controller(Fidelity((0.01,), 1, transports=WAYS, probed=fast))
    assert steps(made, (0.01,), fast, 30) == [0] * 30
    followed = steps(made, (0.01,), slow, 10)
    assert followed[-1] == 1
    assert followed.index(1) <= 6
    assert steps(made, (0.01,), fast, 10)[-1] == 0


def test_steps_correct_a_wrong_probe_only_if_their_times_change() -> None:
    """At first the send time cannot be told from the pass, so the pass gets the error and the transport stays."""
    made = controller(Fidelity((0.1,), 1, transports=WAYS, probed=Probed(1e-4, 0.3)))
    assert set(steps(made, (0.1,), Probed(1e-4, 0.6), 30)) == {1}


def test_the_ratio_falls_with_the_rate() -> None:
    """On fast links a smaller ratio saves no time; if links are slow compared with the pass, it saves much."""
    levels = (0.1, 0.033, 0.011, 0.004, 0.001)
    fast, slow = Probed(1e-4, 1.0), Probed(1e-4, 100.0)
    chosen = {}
    for name, links in {"fast": fast, "slow": slow}.items():
        made = controller(Fidelity(levels, 1, transports=WAYS, probed=links, time_weight=0.6))
        steps(made, levels, links, 60)
        chosen[name] = made.decide().ratio
    assert chosen["fast"] is not None
    assert chosen["slow"] is not None
    assert 0 < chosen["fast"] <= chosen["slow"] < 4


@pytest.mark.parametrize(("weight", "place"), [(0.01, 3), (0.6, 1), (0.99, 0)])
def test_a_knee_is_where_neither_objective_is_bad(weight: float, place: int) -> None:
    assert knee((1.0, 2.0, 4.0, 10.0), (9.0, 3.0, 1.5, 1.0), weight) == place


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"transports": None}, "with 'probed' chooses among 'transports'"),
        ({"transports": (TopKTransport("star", "rabenseifner"),)}, "There is no formula for 'rabenseifner'"),
        ({"probed": None, "time_weight": 0.5}, "with a 'time_weight' needs 'probed'"),
        ({"time_weight": 1.0}, "over 0 and under 1, not 1"),
        ({"time_weight": 0.5, "keeps": 0.5}, "one of 'keeps', 'changes' and a 'time_weight'"),
    ],
)
def test_a_fidelity_by_formula_needs_what_the_formula_does(more: dict[str, object], fault: str) -> None:
    known = {"transports": WAYS, "probed": Probed(1e-3, 0.3)}
    with pytest.raises(SpecError, match=fault):
        Fidelity((0.1,), 1, **(known | more))  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="seconds of at least 0"):
        Probed(-1.0, 0.3)
