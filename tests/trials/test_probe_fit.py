"""Fits figures to samples of probes."""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Sequence

import pytest

from tests import cases
from trials.probe.flows import Probe, ProbeFlow, ProbeSample, link_latencies_us, link_rates_gbit_per_s, seconds_a_byte
from trials.probe.timing import FlowTiming, time_flows


def test_small_messages_do_not_count_for_the_slope() -> None:
    samples = [ProbeSample(1_000, 0.003), ProbeSample(500_000, 0.028), ProbeSample(1_000_000, 0.068)]
    assert seconds_a_byte(samples) == pytest.approx(8e-8)


def test_a_time_that_something_else_has_lengthened_changes_nothing() -> None:
    clean = [ProbeSample(500_000, 0.053), ProbeSample(1_000_000, 0.093)]
    disturbed = [ProbeSample(500_000, 0.140), ProbeSample(1_000_000, 0.095), ProbeSample(1_000_000, 0.400)]
    assert seconds_a_byte([*clean, *disturbed]) == seconds_a_byte(clean) == pytest.approx(8e-8)


def test_halves_that_other_work_has_lengthened_do_not_make_a_link_faster() -> None:
    """Small messages bound the rate: 10 MB at 1 Gbit/s, whose halves took 8 ms too long each time."""
    samples = [
        ProbeSample(1_000, 0.004),
        ProbeSample(64_000, 0.0045),
        *[ProbeSample(5_000_000, 0.052)] * 2,
        ProbeSample(10_000_000, 0.084),
    ]
    assert 0.95 <= 8e-9 / seconds_a_byte(samples) <= 1.06


def test_a_link_of_1_gbit_per_s_is_not_measured_faster_on_a_busy_machine() -> None:
    """Twelve probes of one link, with other work of 3 ms on average in 60 % of the messages, 200 times."""
    rng = random.Random(53)

    def call(sizes: Sequence[int]) -> float:
        busy = rng.expovariate(1 / 3e-3) if rng.random() < 0.6 else 0.0
        return 4e-3 + max(sum(sizes) - 41_500, 0) * 8e-9 + busy

    cluster = cases.star_cluster(2)
    rates_by_seconds: dict[float, list[float]] = {0.1: [], 0.02: []}
    for message_seconds, rates in rates_by_seconds.items():
        for _ in range(100):
            samples = [time_flows(call, [1.0], FlowTiming(message_seconds), lambda _: None) for _ in range(12)]
            betas = {
                Probe((ProbeFlow("node0", "node1", 1 + n),)): seconds_a_byte(timed) for n, timed in enumerate(samples)
            }
            rates.append(link_rates_gbit_per_s(cluster, betas)["node0", "switch"])
    assert max(rates_by_seconds[0.1]) < 1.07
    assert max(rates_by_seconds[0.02]) < 1.2  # 20 ms are short among such disturbances; the figure was 2.8
    assert [statistics.median(rates) for rates in rates_by_seconds.values()] == pytest.approx([1.0, 1.0], abs=0.02)


def test_a_slope_that_noise_made_absurd_is_bounded_by_what_a_message_took() -> None:
    assert seconds_a_byte([ProbeSample(500_000, 0.050), ProbeSample(1_000_000, 0.049)]) == pytest.approx(0.049e-6 / 4)


def test_a_links_rate_is_the_middle_of_the_throughputs_near_the_largest() -> None:
    cluster = cases.star_cluster(4)
    mbit_per_s = {"node1": 190.0, "node2": 196.0, "node3": 100.0}
    betas = {Probe((ProbeFlow("node0", target),)): 8e-6 / rate for target, rate in mbit_per_s.items()}
    rates = link_rates_gbit_per_s(cluster, betas)
    assert rates["node0", "switch"] == pytest.approx(0.193)
    assert rates["switch", "node3"] == pytest.approx(0.1)


def test_a_route_that_is_all_there_is_to_tell_is_split_in_equal_parts() -> None:
    latencies = link_latencies_us(cases.star_cluster(2), {("node0", "node1"): 300.0, ("node1", "node0"): 500.0})
    assert latencies == pytest.approx(
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
    disturbances = iter([0.0] * 8 + [0.05, 0.0, 0.0, 0.04, 0.0, 0.0])
    samples = time_flows(
        lambda sizes: 4e-3 + sum(sizes) / 1e7 + next(disturbances), [1.0], FlowTiming(0.1), lambda _: None
    )
    largest = max(sample.probe_bytes for sample in samples)
    assert sum(sample.probe_bytes == largest for sample in samples) == 3
    assert seconds_a_byte(samples) == pytest.approx(1e-7)


def test_a_link_that_never_comes_to_rest_is_given_up_after_some_repeats() -> None:
    times = itertools.count(1.0)
    samples = time_flows(lambda _: next(times), [1.0], FlowTiming(0.1, most_repeats=4), lambda _: None)
    assert sum(sample.probe_bytes == 65_536 for sample in samples) == 6


def test_a_slow_link_is_sent_no_more_than_the_first_large_message() -> None:
    samples = time_flows(lambda sizes: sum(sizes) / 1e5, [1.0], FlowTiming(0.1), lambda _: None)
    assert max(sample.probe_bytes for sample in samples) == 65_536
