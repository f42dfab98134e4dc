"""Fitting figures to samples of probes."""

from __future__ import annotations

import itertools

import pytest

from tests import cases
from trials.probe.flows import Flow, Probe, Sample, link_latencies_us, link_rates_gbit_per_s, seconds_a_byte
from trials.probe.timing import FlowTiming, time_flows


def test_small_messages_do_not_count_for_the_slope() -> None:
    samples = [Sample(1_000, 0.003), Sample(500_000, 0.028), Sample(1_000_000, 0.068)]
    assert seconds_a_byte(samples) == pytest.approx(8e-8)


def test_a_time_that_something_else_has_lengthened_changes_nothing() -> None:
    clean = [Sample(500_000, 0.053), Sample(1_000_000, 0.093)]
    disturbed = [Sample(500_000, 0.140), Sample(1_000_000, 0.095), Sample(1_000_000, 0.400)]
    assert seconds_a_byte([*clean, *disturbed]) == seconds_a_byte(clean) == pytest.approx(8e-8)


def test_a_slope_that_noise_made_absurd_is_bounded_by_what_a_message_took() -> None:
    assert seconds_a_byte([Sample(500_000, 0.050), Sample(1_000_000, 0.049)]) == pytest.approx(0.049e-6 / 4)


def test_a_links_rate_is_the_middle_of_the_throughputs_near_the_largest() -> None:
    cluster = cases.star_cluster(4)
    mbit_per_s = {"node1": 190.0, "node2": 196.0, "node3": 100.0}
    betas = {Probe((Flow("node0", target),)): 8e-6 / rate for target, rate in mbit_per_s.items()}
    rates = link_rates_gbit_per_s(cluster, betas)
    assert rates["node0", "switch"] == pytest.approx(0.193)
    assert rates["switch", "node3"] == pytest.approx(0.1)


def test_a_route_that_is_all_there_is_to_tell_is_split_in_equal_parts() -> None:
    found = link_latencies_us(cases.star_cluster(2), {("node0", "node1"): 300.0, ("node1", "node0"): 500.0})
    assert found == pytest.approx(
        {
            ("node0", "switch"): 150.0,
            ("switch", "node1"): 150.0,
            ("node1", "switch"): 250.0,
            ("switch", "node0"): 250.0,
        }
    )


def test_messages_grow_until_they_take_as_long_as_asked() -> None:
    samples = time_flows(lambda sizes: 4e-3 + sum(sizes) / 1e7, [1.0, 1.0], FlowTiming(0.1), lambda _: None)
    assert max(sample.probe_bytes for sample in samples) == pytest.approx(1e6, rel=0.1)
    halves, wholes = samples[-4:-2], samples[-2:]
    assert len({sample.probe_bytes for sample in wholes}) == 1
    assert wholes[0].probe_bytes == pytest.approx(2 * halves[0].probe_bytes, rel=1e-3)


def test_messages_are_sent_again_until_two_times_agree() -> None:
    disturbances = iter([0.0] * 5 + [0.05, 0.0, 0.0, 0.04, 0.0, 0.0])
    samples = time_flows(
        lambda sizes: 4e-3 + sum(sizes) / 1e7 + next(disturbances), [1.0], FlowTiming(0.1), lambda _: None
    )
    largest = max(sample.probe_bytes for sample in samples)
    assert sum(sample.probe_bytes == largest for sample in samples) == 3
    assert seconds_a_byte(samples) == pytest.approx(1e-7)


def test_a_link_that_never_comes_to_rest_is_given_up_after_some_repeats() -> None:
    times = itertools.count(1.0)
    samples = time_flows(lambda _: next(times), [1.0], FlowTiming(0.1, most_repeats=4), lambda _: None)
    assert sum(sample.probe_bytes == 65_536 for sample in samples) == 5


def test_a_slow_link_is_sent_no_more_than_the_first_large_message() -> None:
    samples = time_flows(lambda sizes: sum(sizes) / 1e5, [1.0], FlowTiming(0.1), lambda _: None)
    assert max(sample.probe_bytes for sample in samples) == 65_536
