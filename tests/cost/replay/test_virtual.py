"""Steps in virtual time: replayed seconds with each step's own passes, drawn as in the engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosync.baselines import BASELINES
from autosync.cost import Replay, ReplayCoefficients, VirtualClock
from autosync.cost.replay import step_of, virtual
from autosync.engine.core.pacing import Pacing, Waits
from autosync.errors import SpecError
from autosync.spec import (
    AllReduce,
    ClusterSpec,
    Pace,
    ParameterServer,
    RuntimeRecord,
    Slow,
    Spread,
    Strategy,
    TimingProtocol,
    VariableStrategy,
)
from tests.cases import changing
from tests.cost.test_paced import MODEL, NAMES, on_nodes

COEFFICIENTS = ReplayCoefficients(core_seconds_per_byte=2e-9, overlap=0.9)
STEADY, JITTER = Spread(), Spread(0.05)
VARIED = Spread(0.05, Slow(0.2, 20, 3.0))


def paced(spread: Spread, numbers: str = "recorded") -> ClusterSpec:
    """A cluster whose links make a step longer than its passes; the share depends on the length of passes."""
    return on_nodes(Pace(1.0, 0.05, numbers, spread), gbit_per_s=2.0)


def strategy(name: str = "all_reduce_25mb") -> Strategy:
    return BASELINES[name](MODEL, paced(Spread()))


@pytest.mark.parametrize("name", ["all_reduce_25mb", "balanced_parameter_server"])
@pytest.mark.parametrize("numbers", ["recorded", "held"])
def test_without_a_spread_every_step_is_what_the_replay_predicts(name: str, numbers: str) -> None:
    cluster = paced(Spread(), numbers)
    seconds = VirtualClock.of(MODEL, cluster, strategy(name), COEFFICIENTS).step_seconds(7, 50)
    assert seconds.shape == (50,)
    assert set(seconds) == {step_of(MODEL, cluster, strategy(name)).seconds(COEFFICIENTS)}
    predicted = np.exp(Replay(COEFFICIENTS).predict(MODEL, cluster, [strategy(name)]))
    np.testing.assert_allclose(seconds, predicted[0], rtol=1e-12)


def together(spread: Spread, name: str) -> VirtualClock:
    """The clock with common passes, as for many replicas."""
    return replace(VirtualClock.of(MODEL, paced(spread), strategy(name), COEFFICIENTS), apart=())


def test_with_many_replicas_every_step_is_replayed_with_its_slowest_passes() -> None:
    clock = together(VARIED, "all_reduce_25mb")
    seconds, passes = clock.step_seconds(3, 30), clock.pass_seconds(3, 30)
    assert len(set(seconds)) == 30
    for of_step, slowest in zip(seconds, passes.max(axis=1), strict=True):
        steady = on_nodes(Pace(0.0, float(slowest)), gbit_per_s=2.0)
        assert of_step == step_of(MODEL, steady, strategy()).seconds(COEFFICIENTS)


def test_servers_take_what_fast_replicas_send_while_a_slow_one_still_computes() -> None:
    clock = VirtualClock.of(MODEL, paced(VARIED), strategy("balanced_parameter_server"), COEFFICIENTS)
    seconds, passes = clock.step_seconds(3, 200), clock.pass_seconds(3, 200)
    slowest = passes.max(axis=1)
    as_slow = [clock.by_phase[0].with_pass_seconds(duration).seconds(COEFFICIENTS) for duration in slowest.tolist()]
    assert (seconds <= np.array(as_slow) * (1 + 1e-9)).all()
    assert (seconds >= slowest).all()
    late = slowest > 1.5 * np.median(passes, axis=1)
    assert late.any()
    assert np.median(seconds[late] / np.array(as_slow)[late]) < 0.995
    first = clock.apart[0].with_separate_passes(passes[0].tolist()).seconds(COEFFICIENTS)
    assert seconds[0] == pytest.approx(first, rel=1e-9)


def test_passes_that_are_alike_are_replayed_apart_as_together() -> None:
    for name in BASELINES:
        clock = VirtualClock.of(MODEL, paced(VARIED), strategy(name), COEFFICIENTS)
        alike = clock.by_phase[0].with_pass_seconds(0.2).seconds(COEFFICIENTS)
        apart = clock.apart[0].with_separate_passes([0.2] * len(NAMES)).seconds(COEFFICIENTS)
        assert apart == pytest.approx(alike, rel=0.05), name


@pytest.mark.parametrize("name", ["all_reduce_25mb", "balanced_parameter_server", "all_reduce_per_variable"])
def test_steps_that_are_interpolated_are_close_to_those_that_are_replayed(name: str) -> None:
    clock = together(VARIED, name)
    seconds, slowest = clock.step_seconds(0, 2000), clock.pass_seconds(0, 2000).max(axis=1)
    assert len(np.unique(slowest)) > 2 * virtual.MOST_REPLAYED
    exact = [clock.by_phase[0].with_pass_seconds(duration).seconds(COEFFICIENTS) for duration in slowest[:200].tolist()]
    off = np.abs(np.log(seconds[:200] / exact))
    assert off.max() < 5e-3
    assert off.mean() < 1e-4
    assert np.count_nonzero(seconds[:200] == exact) < 200


def test_a_step_has_the_rates_of_the_phase_in_which_it_begins_by_the_virtual_clock() -> None:
    steady = paced(VARIED)
    cluster, steps = changing(steady, (1.0, 0.1), (2.0, 0.3)), 40
    clock = VirtualClock.of(MODEL, cluster, strategy(), COEFFICIENTS)
    seconds, phases = clock.step_seconds(3, steps), clock.phases(3, steps)
    alone = [
        VirtualClock.of(MODEL, changing(steady, (1.0, factor)).at(1.0), strategy(), COEFFICIENTS).step_seconds(3, steps)
        for factor in (1.0, 0.1, 0.3)
    ]
    assert len(np.unique(np.round(np.median(alone, axis=1), 3))) == 3
    begins = np.cumsum(seconds) - seconds
    np.testing.assert_array_equal(phases, np.searchsorted([1.0, 2.0], begins, side="right"))
    assert set(phases) == {0, 1, 2}
    np.testing.assert_allclose(seconds, np.array(alone)[phases, range(steps)], rtol=1e-9)
    later = clock.step_seconds(3, steps, begin_seconds=2.0)
    np.testing.assert_allclose(later, alone[2], rtol=1e-9)
    assert set(clock.phases(3, steps, begin_seconds=2.0)) == {2}


def test_a_phase_that_ends_during_a_step_has_no_steps() -> None:
    cluster = changing(paced(STEADY), (0.01, 0.1), (0.02, 0.3))
    clock = VirtualClock.of(MODEL, cluster, strategy(), COEFFICIENTS)
    assert list(clock.phases(0, 4)) == [0, 2, 2, 2]
    assert clock.step_seconds(0, 0).shape == clock.phases(0, 0).shape == (0,)


def test_draws_are_those_of_the_engine() -> None:
    cluster = paced(replace(VARIED, trace=(1.0, 1.5)))
    pacing = Pacing.of(NAMES, MODEL, cluster, [Waits("", "", "")] * len(NAMES))
    drawn = VirtualClock.of(MODEL, cluster, strategy()).pass_seconds(5, 12)
    np.testing.assert_array_equal(drawn, [pacing.seconds(5, step) for step in range(12)])


def test_a_record_of_virtual_steps_has_a_separate_kind() -> None:
    cluster = paced(JITTER)
    clock = VirtualClock.of(MODEL, cluster, strategy())
    seconds, kept = tuple(clock.step_seconds(0, 8).tolist()), clock.kept(0, 8)
    record = RuntimeRecord(
        MODEL,
        cluster,
        strategy(),
        TimingProtocol(0, 8),
        "ok",
        "manual",
        "virtual",
        "none",
        0,
        0.0,
        step_seconds=seconds,
        pace=kept,
    )
    assert (record.time, record.numbers, kept.fault) == ("virtual", "recorded", None)
    assert not record.compares_on(cluster)
    assert kept.requested_seconds == pytest.approx(np.median(clock.pass_seconds(0, 8), axis=0))


def test_clusters_models_and_strategies_without_virtual_steps_are_refused() -> None:
    with pytest.raises(SpecError, match="Virtual time needs a profiled model on a paced cluster"):
        VirtualClock.of(MODEL, on_nodes(None), strategy())
    with pytest.raises(SpecError, match="Virtual time needs a profiled model on a paced cluster"):
        VirtualClock.of(replace(MODEL, profile=None), paced(JITTER), strategy())
    stale = ParameterServer("node0/cpu:0", staleness=1)
    late = Strategy(NAMES, tuple(VariableStrategy(variable.name, (stale,)) for variable in MODEL.variables))
    with pytest.raises(SpecError, match="Steps on a paced cluster are synchronous, also in virtual time"):
        VirtualClock.of(MODEL, paced(JITTER), late)
    alone = Strategy(
        ("nosuch/cpu:0",), tuple(VariableStrategy(variable.name, (AllReduce(0),)) for variable in MODEL.variables)
    )
    with pytest.raises(SpecError):
        VirtualClock.of(MODEL, paced(JITTER), alone)
