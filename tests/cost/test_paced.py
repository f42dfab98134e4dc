"""Paced passes in the simulators: a delay that keeps no core busy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosync.baselines import BASELINES
from autosync.cost import AnalyticSimulator, Replay, step_bound
from autosync.cost.capacity import RELEASE_CORE_SECONDS, draw_passes
from autosync.cost.coefficients import ReplayCoefficients
from autosync.spec import ClusterSpec, DeviceProfile, Figure, ModelProfile, ModelSpec, Pace, Spread
from tests.cases import bert_like_model, star_cluster


def profiled(model: ModelSpec, seconds: float) -> ModelSpec:
    """`model` with passes of `seconds` core-seconds, and variables ready at equal distances."""
    ready = {variable.name: (variable.ready_order + 1) / len(model.variables) for variable in model.variables}
    return replace(model, profile=ModelProfile(seconds / 3, 2 * seconds / 3, ready))


MODEL = profiled(bert_like_model(), 0.02)


def on_nodes(pace: Pace | None, gbit_per_s: float = 100.0, cores: float = 1.0) -> ClusterSpec:
    cluster = star_cluster(4)
    rate = Figure(gbit_per_s, "stated")
    links = tuple(replace(link, gbit_per_s=rate) for link in cluster.links)
    return replace(cluster, links=links, nodes=tuple(replace(node, pace=pace, cores=cores) for node in cluster.nodes))


def predicted(simulator: AnalyticSimulator | Replay, cluster: ClusterSpec, model: ModelSpec = MODEL) -> float:
    strategy = BASELINES["all_reduce_25mb"](model, cluster)
    return float(np.exp(simulator.predict(model, cluster, [strategy])[0]))


@pytest.mark.parametrize("simulator", [AnalyticSimulator(), Replay()], ids=["closed form", "replay"])
def test_a_step_is_longer_by_what_the_pace_adds_where_links_are_no_limit(simulator: AnalyticSimulator | Replay) -> None:
    steps = [predicted(simulator, on_nodes(Pace(0.0, seconds))) for seconds in (1.0, 1.5, 3.0)]
    assert steps[0] > 1.0
    np.testing.assert_allclose(np.diff(steps), [0.5, 1.5], rtol=0.05)


@pytest.mark.parametrize("simulator", [AnalyticSimulator(), Replay()], ids=["closed form", "replay"])
def test_a_recorded_pass_leaves_the_cores_to_messages_and_a_held_one_does_not(
    simulator: AnalyticSimulator | Replay,
) -> None:
    heavy = profiled(MODEL, 5.0)
    recorded, held = (
        predicted(simulator, on_nodes(Pace(0.0, 0.5, numbers)), heavy) for numbers in ("recorded", "held")
    )
    assert recorded < 2.0
    assert held > 4.0


def test_gradients_of_a_paced_pass_are_sent_when_released_for_any_overlap() -> None:
    little, all_of_it = (Replay(ReplayCoefficients(overlap=overlap)) for overlap in (0.0, 1.0))
    paced, real, heavy = on_nodes(Pace(0.0, 0.5), 0.1), on_nodes(None, 0.1), profiled(MODEL, 0.5)
    assert predicted(little, paced) == predicted(all_of_it, paced)
    assert predicted(little, real, heavy) > 1.05 * predicted(all_of_it, real, heavy)


def test_a_release_that_waits_for_a_core_delays_no_other_release() -> None:
    cluster = on_nodes(Pace(0.0, 0.5))
    strategy = BASELINES["all_reduce_per_variable"](MODEL, cluster)
    found = Replay(ReplayCoefficients(core_seconds_per_message=5e-3)).figures(MODEL, cluster, strategy)
    assert found.compute_seconds == pytest.approx(0.5)
    assert found.step_seconds > 0.7, "cores are busy with messages long after the passes"


def test_paced_passes_take_as_long_as_the_slowest_replica_in_the_median_step() -> None:
    steady, varied = (draw_passes(MODEL, on_nodes(Pace(5.0, 0.05, spread=spread)), NAMES) for spread in SPREADS)
    assert steady is not None
    assert varied is not None
    assert steady.seconds == steady.least_seconds == pytest.approx(0.15)
    assert varied.least_seconds < varied.seconds
    assert varied.seconds > steady.seconds * 1.1
    assert steady.core_seconds == pytest.approx(12 * RELEASE_CORE_SECONDS, rel=0.35)
    assert sorted(steady.ready) == sorted(variable.name for variable in MODEL.variables)
    assert max(steady.ready.values()) == 1.0
    assert draw_passes(MODEL, on_nodes(None), NAMES) is None


SPREADS = (Spread(), Spread(0.3))
NAMES = tuple(str(device) for device in on_nodes(None).replica_devices)


def test_with_another_devices_profile_passes_follow_it_and_held_passes_compute_on_this_cpu() -> None:
    ready = {variable.name: 0.04 if variable.ready_order else 0.03 for variable in MODEL.variables}
    versions = {"tensorflow": "2.21.0"}
    device = DeviceProfile("H100", versions, MODEL.batch_size, "float32", "2026-11-20", 0.06, 0.04, ready)
    model, bare = replace(MODEL, device_profile=device), replace(MODEL, device_profile=device, profile=None)
    recorded, held = (on_nodes(Pace(3.0, 0.0, numbers)) for numbers in ("recorded", "held"))
    passes = draw_passes(model, recorded, NAMES)
    assert passes is not None
    assert (passes.seconds, passes.forward) == (pytest.approx(0.3), pytest.approx(0.6))
    assert {round(fraction, 6) for fraction in passes.ready.values()} == {0.75, 1.0}
    assert passes.release_seconds == passes.core_seconds == 2 * RELEASE_CORE_SECONDS
    of_held = draw_passes(model, held, NAMES)
    assert of_held is not None
    assert of_held.core_seconds == pytest.approx(passes.release_seconds + 0.02)
    for simulator in (AnalyticSimulator(), Replay()):
        assert predicted(simulator, recorded, model) > 0.3 > predicted(simulator, recorded) - 0.05
        assert predicted(simulator, recorded, bare) == predicted(simulator, recorded, model)
    for paced_model in (model, bare):
        assert step_bound(paced_model, recorded).reason.startswith("paced passes and then ")
        assert step_bound(paced_model, recorded).seconds == pytest.approx(0.3, abs=1e-3)


def test_no_step_is_shorter_than_its_draw_passes() -> None:
    bound = step_bound(MODEL, on_nodes(Pace(0.0, 0.4)))
    assert 0.4 < bound.seconds < 0.401  # the last gradient crosses after the pass
    assert bound.reason.startswith("paced passes and then ")
    assert "paced" not in step_bound(MODEL, on_nodes(None)).reason
