"""The pace of a node: refused values, variation that is the same in every process, and releases of gradients."""

from __future__ import annotations

import math
import re
import statistics
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from autosync.errors import SpecError
from autosync.spec import ClusterSpec, KeptPace, ModelProfile, Pace, Slow, Spread, canonical_json, parse_json
from autosync.spec.pace import releases
from tests import cases

PROFILE = ModelProfile(0.01, 0.03, {"a": 1.0, "b": 0.5, "c": 0.49, "d": 0.1})
VARIED = Pace(5.0, 0.02, "held", Spread(0.1, Slow(0.2, 10, 3.0, "left"), (1.0, 1.5)))


def paced(cluster: ClusterSpec, pace: Pace) -> ClusterSpec:
    return replace(cluster, nodes=tuple(replace(node, pace=pace) for node in cluster.nodes))


def test_a_pass_takes_what_is_fixed_and_the_scaled_profile_for_its_share_of_a_batch() -> None:
    assert Pace(5.0, 0.02).seconds(PROFILE, 0, 3, "node0/cpu:0") == pytest.approx(0.22)
    assert Pace(5.0, 0.02).seconds(PROFILE, 0, 3, "node0/cpu:0", share=0.5) == pytest.approx(0.12)
    assert Pace(0.0, 0.15).seconds(PROFILE, 7, 0, "node1/cpu:0") == 0.15
    assert Pace(0.0, batch_seconds=0.2).seconds(PROFILE, 0, 3, "node0/cpu:0", share=0.5) == pytest.approx(0.1)
    assert Pace(5.0, 0.02, batch_seconds=0.1).seconds(PROFILE, 0, 3, "node0/cpu:0", share=2.0) == pytest.approx(0.62)


def test_a_draw_follows_from_seed_step_and_device_alone_in_another_process_too() -> None:
    mine = [VARIED.seconds(PROFILE, 4, step, "node0/cpu:0") for step in range(5)]
    program = (
        "from autosync.spec import *\n"
        f"pace = Pace.from_json(parse_json({canonical_json(VARIED.to_json())!r}, 'A pace'))\n"
        f"profile = ModelProfile.from_json(parse_json({canonical_json(PROFILE.to_json())!r}, 'A profile'))\n"
        "print([pace.seconds(profile, 4, step, 'node0/cpu:0') for step in reversed(range(5))][::-1])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str(mine)
    assert mine != [VARIED.seconds(PROFILE, 5, step, "node0/cpu:0") for step in range(5)]


def test_a_log_normal_spread_has_its_sigma_and_the_median_one() -> None:
    """4000 draws: with 99.9 %, the median of their logarithms is within 0.008 and their deviation within 0.007."""
    spread = Spread(0.1)
    logs = [math.log(spread.at(0, step, "node0/cpu:0")) for step in range(4000)]
    assert abs(statistics.median(logs)) < 0.008
    assert statistics.stdev(logs) == pytest.approx(0.1, abs=0.007)
    second = [math.log(spread.at(0, step, "node1/cpu:0")) for step in range(4000)]
    assert abs(statistics.correlation(logs, second)) < 0.06


def test_slow_spells_last_their_dwell_and_are_their_share_of_steps() -> None:
    """1000 spells, slow with probability 0.2: with 99.9 %, the share of slow spells is within 0.045 of 0.2."""
    slow = Slow(0.2, 10, 3.0)
    factors = [slow.at(1, step, "node0") for step in range(10_000)]
    assert set(factors) == {1.0, 3.0}
    assert factors.count(3.0) / len(factors) == pytest.approx(0.2, abs=0.045)
    changes = [step for step in range(1, 10_000) if factors[step] != factors[step - 1]]
    assert {(later - changes[0]) % 10 for later in changes} == {0}


def test_only_nodes_with_the_same_together_are_slow_at_the_same_steps() -> None:
    alone, rack = Slow(0.3, 5, 2.0), Slow(0.3, 5, 2.0, "left")

    def steps(slow: Slow, node: str) -> list[float]:
        return [slow.at(0, step, node) for step in range(400)]

    assert steps(rack, "node0") == steps(rack, "node1")
    assert steps(alone, "node0") != steps(alone, "node1")
    assert steps(rack, "node0") != steps(replace(rack, together="right"), "node0")


def test_a_trace_is_followed_step_by_step_over_and_over() -> None:
    spread = Spread(trace=(1.0, 1.5, 4.0))
    assert [spread.at(9, step, "node3/cpu:0") for step in range(5)] == [1.0, 1.5, 4.0, 1.0, 1.5]


@pytest.mark.parametrize(
    "pace", [VARIED, Pace(), Pace(0.0, 0.1, "held"), Pace(spread=Spread(0.2)), Pace(0.0, batch_seconds=0.1)]
)
def test_a_pace_comes_back_from_json(pace: Pace) -> None:
    assert Pace.from_json(parse_json(canonical_json(pace.to_json()), "A pace")) == pace


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Pace(-1.0), "The scale of a pace is from 0 to 1e+06, not -1.0."),
        (lambda: Pace(0.0, 0.0), "A pace has a scale, a fixed time or a time for a batch above zero; all are 0."),
        (lambda: Pace(1.0, math.inf), "A pace's fixed time in seconds is from 0 to 3600, not inf."),
        (lambda: Pace(numbers="made up"), "The numbers of a pace are recorded or held, not 'made up'."),
        (lambda: Slow(1.5, 3, 2.0), "The probability of a slow spell is from 0 to 1, not 1.5."),
        (lambda: Slow(0.5, 0, 2.0), "The dwell of a slow spell in steps is from 1 to 1e+06, not 0."),
        (lambda: Slow(0.5, 3, 0.0), "The factor of a slow spell is from 1e-06 to 1e+06, not 0.0."),
        (lambda: Spread(math.nan), "The sigma of a log-normal spread is from 0 to 3, not nan."),
        (lambda: Spread(trace=(1.0, 0.0)), "A factor of a pace's trace is from 1e-06 to 1e+06, not 0.0."),
        (lambda: Spread(trace=(1.0,) * 2001), "A pace's trace has at most 2000 factors, not 2001."),
    ],
)
def test_an_invalid_pace_is_refused_in_a_sentence(make: Any, told: str) -> None:
    with pytest.raises(SpecError, match=re.escape(told)):
        make()


def test_a_pass_that_was_requested_to_take_nothing_kept_no_pace() -> None:
    with pytest.raises(SpecError, match=re.escape("Passes are requested to take over 0 s, not (0.1, 0.0).")):
        KeptPace("paced", "recorded", 2, (0.1, 0.0), (0.1, 0.1), (0.0, 0.0), (0.0, 0.0))


def test_a_paced_cluster_is_another_cluster_and_says_so() -> None:
    real = cases.star_cluster()
    recorded, held = paced(real, Pace()), paced(real, Pace(numbers="held"))
    assert len({real.digest, recorded.digest, held.digest}) == 3
    assert [(cluster.time, cluster.numbers) for cluster in (real, recorded, held)] == [
        ("real", "real"),
        ("paced", "recorded"),
        ("paced", "held"),
    ]
    assert ClusterSpec.from_json(parse_json(canonical_json(held.to_json()), "A cluster")) == held


def test_all_nodes_are_paced_or_none_and_give_one_kind_of_numbers() -> None:
    real = cases.star_cluster()
    first, *others = paced(real, Pace()).nodes
    with pytest.raises(SpecError, match="or no node is; without a pace are node0"):
        replace(real, nodes=(replace(first, pace=None), *others))
    with pytest.raises(SpecError, match="or no node is; here both recorded and held are asked for"):
        replace(real, nodes=(replace(first, pace=Pace(numbers="held")), *others))
    with pytest.raises(SpecError, match="only passes on processors are paced; leave out gpus or pace"):
        replace(first, gpus=1)


def test_gradients_that_are_ready_together_are_released_together() -> None:
    assert releases(PROFILE, most=3) == (
        (pytest.approx(0.325), ("d",)),
        (pytest.approx(0.625), ("c", "b")),
        (1.0, ("a",)),
    )
    assert releases(PROFILE, most=1) == ((1.0, ("d", "c", "b", "a")),)
    assert [names for _, names in releases(PROFILE)] == [("d",), ("c",), ("b",), ("a",)]


def test_gradients_that_are_ready_nearly_together_are_released_with_the_last_of_them() -> None:
    profile = ModelProfile(0.01, 0.01, {"a": 0.5, "b": 0.504, "c": 0.511, "d": 1.0})
    assert releases(profile) == ((pytest.approx(0.752), ("a", "b")), (pytest.approx(0.7555), ("c",)), (1.0, ("d",)))


def test_many_gradients_are_each_released_once_and_late_by_a_bounded_share() -> None:
    profile = ModelProfile(0.01, 0.02, {f"v{number}": ((number * 37) % 400 + 1) / 400 for number in range(400)})
    groups = releases(profile)
    assert len(groups) <= 12
    assert sorted(name for _, names in groups for name in names) == sorted(profile.ready)
    for time, names in groups:
        waits = [time - (1 / 3 + 2 / 3 * profile.ready[name]) for name in names]
        assert min(waits) >= -1e-12
        assert max(waits) < 1 / 12
