"""Counterfactuals: the winner with one decision reverted and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from autosync.baselines import BASELINES
from autosync.baselines.nearest import nearest_baseline
from autosync.search.verdict.counterfactuals import Counterfactual, counterfactuals, worth_of
from autosync.spec import (
    AllReduce,
    Cast,
    ModelSpec,
    ParameterServer,
    Partition,
    RuntimeRecord,
    Strategy,
    Synchronizer,
    TimingProtocol,
    VariableStrategy,
    strategy_faults,
)
from search_spaces.default import SPACE
from tests import cases

MODEL, CLUSTER = cases.bert_like_model(layers=1), cases.star_cluster(4)
HERE = SPACE.bind(MODEL, CLUSTER)
REDUCED = BASELINES["all_reduce_64mb"](MODEL, CLUSTER)
SERVED = BASELINES["balanced_parameter_server"](MODEL, CLUSTER)
TOKEN, KERNEL = "embeddings/token", "layer_0/intermediate/kernel"
SERVERS = tuple(map(str, CLUSTER.server_devices))


def with_decisions(base: Strategy, *decisions: VariableStrategy) -> Strategy:
    """`base` with these variables decided otherwise."""
    new = {each.variable: each for each in decisions}
    return replace(base, variables=tuple(new.get(each.variable, each) for each in base.variables))


def every_shard(base: Strategy, change: Callable[[Synchronizer], Synchronizer]) -> Strategy:
    return replace(
        base, variables=tuple(replace(each, shards=tuple(map(change, each.shards))) for each in base.variables)
    )


def reverted(winner: Strategy, baseline: Strategy, model: ModelSpec = MODEL) -> dict[str, Strategy]:
    return {each.label: each.strategy for each in counterfactuals(model, CLUSTER, winner, baseline, most=99)}


def changed_variables(one: Strategy, other: Strategy) -> set[str]:
    """Variables whose own decision differs, whatever buckets are called."""

    def told(strategy: Strategy) -> dict[str, object]:
        leaders: dict[int, str] = {}
        found = {}
        for each in strategy.variables:
            shards = tuple(
                (leaders.setdefault(shard.group, each.variable), shard.algorithm, shard.compressor)
                if isinstance(shard, AllReduce)
                else shard
                for shard in each.shards
            )
            found[each.variable] = each.partition, shards
        return found

    mine, theirs = told(one), told(other)
    return {name for name in mine if mine[name] != theirs[name]}


def test_a_large_variable_goes_back_into_the_bucket_of_its_neighbours() -> None:
    winner = with_decisions(REDUCED, VariableStrategy(KERNEL, (ParameterServer(SERVERS[1]),)))
    found = reverted(winner, REDUCED)
    assert found == {f"{KERNEL}: all-reduced, not on a server": REDUCED.with_groups_renumbered()}


def test_where_a_variable_is_and_how_it_is_cut_are_decisions_of_their_own() -> None:
    elsewhere = next(device for device in SERVERS if device != SERVED.by_name[KERNEL].shards[0].device)  # type: ignore[union-attr]
    cut = VariableStrategy(TOKEN, tuple(ParameterServer(device) for device in SERVERS), Partition(0, 4))
    winner = with_decisions(SERVED, VariableStrategy(KERNEL, (ParameterServer(elsewhere),)), cut)
    found = reverted(winner, SERVED)
    assert len(found) == 2
    (moved,) = (strategy for label, strategy in found.items() if label.startswith(f"{KERNEL}: on "))
    (whole,) = (strategy for label, strategy in found.items() if label == f"{TOKEN}: whole, not cut in 4 along axis 0")
    assert changed_variables(moved, winner) == {KERNEL}
    assert changed_variables(whole, winner) == {TOKEN}
    assert moved.by_name[KERNEL] == SERVED.by_name[KERNEL]
    assert whole.by_name[TOKEN] == SERVED.by_name[TOKEN]


def test_a_cut_that_the_baseline_has_no_server_for_is_undone_on_the_first_of_its_own() -> None:
    cut = VariableStrategy(KERNEL, (ParameterServer(SERVERS[2]), ParameterServer(SERVERS[3])), Partition(0, 2))
    found = reverted(with_decisions(REDUCED, cut), REDUCED)
    assert found[f"{KERNEL}: whole, not cut in 2 along axis 0"].by_name[KERNEL] == VariableStrategy(
        KERNEL, (ParameterServer(SERVERS[2]),)
    )
    assert f"{KERNEL}: all-reduced, not on a server" in found


def test_the_algorithm_of_a_bucket_is_one_decision() -> None:
    def by_tree(shard: Synchronizer) -> Synchronizer:
        return replace(shard, algorithm="tree") if isinstance(shard, AllReduce) else shard

    dense = cases.bert_like_model(layers=1, sparse=False)
    ring = BASELINES["all_reduce_64mb"](dense, CLUSTER)
    found = reverted(every_shard(ring, by_tree), ring, dense)
    assert list(found.values()) == [ring.with_groups_renumbered()]
    (label,) = found
    assert label.endswith(": ring all-reduce, not binomial-tree")


def split(base: Strategy, parts: int) -> Strategy:
    """The variables, all of them all-reduced, dealt out to so many buckets in turns."""
    return replace(
        base,
        variables=tuple(
            replace(each, shards=tuple(replace(shard, group=at % parts) for shard in each.shards))  # type: ignore[type-var]
            for at, each in enumerate(base.variables)
        ),
    )


def test_buckets_are_taken_apart_or_put_together_as_a_whole() -> None:
    dense = cases.bert_like_model(layers=1, sparse=False)
    one = BASELINES["all_reduce_64mb"](dense, CLUSTER)
    three = split(one, 3)
    (label,) = together = reverted(three, one, dense)
    assert label.endswith(": in one bucket, not 3")
    assert together[label] == one.with_groups_renumbered()
    (label,) = apart = reverted(one, three, dense)
    assert label.endswith(": in 3 buckets, not one")
    assert apart[label].digest == three.digest


@pytest.mark.parametrize(("ours", "theirs"), [(3, 1), (1, 3)])
def test_all_bytes_of_buckets_that_are_taken_apart_or_put_together_count(ours: int, theirs: int) -> None:
    dense = cases.bert_like_model(layers=1, sparse=False)
    winner, baseline = (split(BASELINES["all_reduce_64mb"](dense, CLUSTER), parts) for parts in (ours, theirs))
    (found,) = counterfactuals(dense, CLUSTER, winner, baseline, most=99)
    assert found.gradient_bytes == dense.gradient_bytes


def test_local_copies_and_encodings_are_reverted_for_all_that_have_them() -> None:
    def copied(shard: Synchronizer) -> Synchronizer:
        return replace(shard, local_copy=True) if isinstance(shard, ParameterServer) else shard

    winner = every_shard(SERVED, copied)
    without = {label: s for label, s in reverted(winner, SERVED).items() if "local copies" in label}
    assert all(label.endswith(": without local copies") for label in without)
    assert set.union(*(changed_variables(strategy, winner) for strategy in without.values())) == set(MODEL.by_name)

    encoded = every_shard(REDUCED, lambda shard: replace(shard, compressor=Cast("bf16")))
    (label,) = found = reverted(encoded, REDUCED)
    assert label.endswith(": gradients as they are, not gradients in bf16")
    assert found[label] == REDUCED.with_groups_renumbered()


def test_staleness_and_the_order_of_replicas_are_reverted_as_a_whole() -> None:
    stale = every_shard(SERVED, lambda shard: replace(shard, staleness=2))
    assert reverted(stale, SERVED) == {"all variables: staleness 0, not 2": SERVED}
    turned = replace(REDUCED, replicas=tuple(reversed(REDUCED.replicas)))
    assert reverted(turned, REDUCED) == {"replicas in the baseline's order": REDUCED.with_groups_renumbered()}


def test_a_baseline_has_nothing_to_revert() -> None:
    assert counterfactuals(MODEL, CLUSTER, REDUCED, REDUCED, most=5) == []
    assert counterfactuals(MODEL, CLUSTER, SERVED, REDUCED, most=0) == []


@pytest.mark.parametrize("seed", range(8))
def test_counterfactuals_of_any_strategy_are_valid_in_the_space_different_and_nearer_to_the_baseline(seed: int) -> None:
    winner = HERE.sample(random.Random(seed))
    baseline = nearest_baseline(winner, MODEL, CLUSTER).strategy
    found = counterfactuals(MODEL, CLUSTER, winner, baseline, most=99)
    assert found
    assert len({each.strategy.digest for each in found} | {winner.digest}) == len(found) + 1
    for each in found:
        assert list(strategy_faults(each.strategy, MODEL, CLUSTER)) == [], each.label
        assert HERE.why_not(each.strategy) is None, each.label
        touched = changed_variables(each.strategy, winner)
        assert touched, each.label
        assert [one.variable for one in each.strategy.variables] == [one.variable for one in winner.variables]


def test_those_that_should_change_the_step_most_come_first_and_only_as_many_as_asked() -> None:
    winner = HERE.sample(random.Random(1))
    baseline = nearest_baseline(winner, MODEL, CLUSTER).strategy
    found = counterfactuals(MODEL, CLUSTER, winner, baseline, most=99)
    effects = [round(abs(np.log(each.predicted_worth)), 6) for each in found]
    assert effects == sorted(effects, reverse=True)
    assert counterfactuals(MODEL, CLUSTER, winner, baseline, most=2) == found[:2]


def turn(strategy: Strategy, seconds: float, seed: int, outcome: str = "ok") -> RuntimeRecord:
    generator = np.random.default_rng(seed)
    steps = tuple(seconds * np.exp(0.01 * generator.standard_normal(20))) if outcome == "ok" else ()
    return RuntimeRecord(
        MODEL, CLUSTER, strategy, TimingProtocol(), outcome, "remeasure", "x", "r", 0, 0.0,
        step_seconds=steps, reason="" if outcome == "ok" else "a worker broke",
    )  # fmt: skip


ONE = Counterfactual("one", SERVED, 1.0, 1.1)


def test_a_worth_is_the_ratio_within_rounds_so_that_drift_cancels() -> None:
    rounds = [[turn(REDUCED, 0.1 * 2**at, at), turn(SERVED, 0.15 * 2**at, 50 + at)] for at in range(4)]
    found = worth_of(ONE, REDUCED, rounds)
    assert found.ratio == pytest.approx(1.5, rel=0.02)
    assert found.interval is not None
    assert 1.4 < found.interval[0] < 1.5 < found.interval[1] < 1.6
    assert (found.rounds, found.note) == (4, "")


def test_a_worth_of_what_failed_or_had_no_time_says_why() -> None:
    failed = [[turn(REDUCED, 0.1, 0), turn(SERVED, 0.1, 1, outcome="failed")]]
    found = worth_of(ONE, REDUCED, failed)
    assert (found.ratio, found.interval, found.note) == (None, None, "a worker broke")
    assert worth_of(ONE, REDUCED, []).note == "There was no time for it."


def test_a_worth_of_one_round_states_its_reservation() -> None:
    found = worth_of(ONE, REDUCED, [[turn(REDUCED, 0.1, 0), turn(SERVED, 0.2, 1)]])
    assert found.note == "1 round in turns is too few for an interval."
