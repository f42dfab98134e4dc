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
    """Return `base` with different decisions on these variables."""
    new = {decision.variable: decision for decision in decisions}
    return replace(base, variables=tuple(new.get(decision.variable, decision) for decision in base.variables))


def every_shard(base: Strategy, change: Callable[[Synchronizer], Synchronizer]) -> Strategy:
    return replace(
        base,
        variables=tuple(replace(decision, shards=tuple(map(change, decision.shards))) for decision in base.variables),
    )


def reverted(winner: Strategy, baseline: Strategy, model: ModelSpec = MODEL) -> dict[str, Strategy]:
    return {
        counterfactual.label: counterfactual.strategy
        for counterfactual in counterfactuals(model, CLUSTER, winner, baseline, most=99)
    }


def changed_variables(first: Strategy, second: Strategy) -> set[str]:
    """Return the variables whose own decision differs, regardless of bucket numbers."""

    def described(strategy: Strategy) -> dict[str, object]:
        leaders: dict[int, str] = {}
        decisions = {}
        for decision in strategy.variables:
            shards = tuple(
                (leaders.setdefault(shard.group, decision.variable), shard.algorithm, shard.compressor)
                if isinstance(shard, AllReduce)
                else shard
                for shard in decision.shards
            )
            decisions[decision.variable] = decision.partition, shards
        return decisions

    mine, theirs = described(first), described(second)
    return {name for name in mine if mine[name] != theirs[name]}


def test_a_large_variable_goes_back_into_the_bucket_of_its_neighbours() -> None:
    winner = with_decisions(REDUCED, VariableStrategy(KERNEL, (ParameterServer(SERVERS[1]),)))
    reversals = reverted(winner, REDUCED)
    assert reversals == {f"{KERNEL}: all-reduced, not on a server": REDUCED.with_groups_renumbered()}


def test_where_a_variable_is_and_how_it_is_cut_are_decisions_of_their_own() -> None:
    elsewhere = next(device for device in SERVERS if device != SERVED.by_name[KERNEL].shards[0].device)  # type: ignore[union-attr]
    cut = VariableStrategy(TOKEN, tuple(ParameterServer(device) for device in SERVERS), Partition(0, 4))
    winner = with_decisions(SERVED, VariableStrategy(KERNEL, (ParameterServer(elsewhere),)), cut)
    reversals = reverted(winner, SERVED)
    assert len(reversals) == 2
    (moved,) = (strategy for label, strategy in reversals.items() if label.startswith(f"{KERNEL}: on "))
    (whole,) = (
        strategy for label, strategy in reversals.items() if label == f"{TOKEN}: whole, not cut in 4 along axis 0"
    )
    assert changed_variables(moved, winner) == {KERNEL}
    assert changed_variables(whole, winner) == {TOKEN}
    assert moved.by_name[KERNEL] == SERVED.by_name[KERNEL]
    assert whole.by_name[TOKEN] == SERVED.by_name[TOKEN]


def test_a_cut_that_the_baseline_has_no_server_for_is_undone_on_the_first_of_its_own() -> None:
    cut = VariableStrategy(KERNEL, (ParameterServer(SERVERS[2]), ParameterServer(SERVERS[3])), Partition(0, 2))
    reversals = reverted(with_decisions(REDUCED, cut), REDUCED)
    assert reversals[f"{KERNEL}: whole, not cut in 2 along axis 0"].by_name[KERNEL] == VariableStrategy(
        KERNEL, (ParameterServer(SERVERS[2]),)
    )
    assert f"{KERNEL}: all-reduced, not on a server" in reversals


def test_the_algorithm_of_a_bucket_is_one_decision() -> None:
    def by_tree(shard: Synchronizer) -> Synchronizer:
        return replace(shard, algorithm="tree") if isinstance(shard, AllReduce) else shard

    dense = cases.bert_like_model(layers=1, sparse=False)
    ring = BASELINES["all_reduce_64mb"](dense, CLUSTER)
    reversals = reverted(every_shard(ring, by_tree), ring, dense)
    assert list(reversals.values()) == [ring.with_groups_renumbered()]
    (label,) = reversals
    assert label.endswith(": ring all-reduce, not binomial-tree")


def split(base: Strategy, parts: int) -> Strategy:
    """Distribute the variables, all of them all-reduced, round-robin over `parts` buckets."""
    return replace(
        base,
        variables=tuple(
            replace(decision, shards=tuple(replace(shard, group=at % parts) for shard in decision.shards))  # type: ignore[type-var]
            for at, decision in enumerate(base.variables)
        ),
    )


def test_buckets_are_taken_apart_or_put_together_as_a_whole() -> None:
    dense = cases.bert_like_model(layers=1, sparse=False)
    single = BASELINES["all_reduce_64mb"](dense, CLUSTER)
    three = split(single, 3)
    (label,) = together = reverted(three, single, dense)
    assert label.endswith(": in one bucket, not 3")
    assert together[label] == single.with_groups_renumbered()
    (label,) = apart = reverted(single, three, dense)
    assert label.endswith(": in 3 buckets, not one")
    assert apart[label].digest == three.digest


@pytest.mark.parametrize(("ours", "theirs"), [(3, 1), (1, 3)])
def test_all_bytes_of_buckets_that_are_taken_apart_or_put_together_count(ours: int, theirs: int) -> None:
    dense = cases.bert_like_model(layers=1, sparse=False)
    winner, baseline = (split(BASELINES["all_reduce_64mb"](dense, CLUSTER), parts) for parts in (ours, theirs))
    (counterfactual,) = counterfactuals(dense, CLUSTER, winner, baseline, most=99)
    assert counterfactual.gradient_bytes == dense.gradient_bytes


def test_local_copies_and_encodings_are_reverted_for_all_that_have_them() -> None:
    def copied(shard: Synchronizer) -> Synchronizer:
        return replace(shard, local_copy=True) if isinstance(shard, ParameterServer) else shard

    winner = every_shard(SERVED, copied)
    without = {label: s for label, s in reverted(winner, SERVED).items() if "local copies" in label}
    assert all(label.endswith(": without local copies") for label in without)
    assert set.union(*(changed_variables(strategy, winner) for strategy in without.values())) == set(MODEL.by_name)

    encoded = every_shard(REDUCED, lambda shard: replace(shard, compressor=Cast("bf16")))
    (label,) = reversals = reverted(encoded, REDUCED)
    assert label.endswith(": gradients as they are, not gradients in bf16")
    assert reversals[label] == REDUCED.with_groups_renumbered()


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
    results = counterfactuals(MODEL, CLUSTER, winner, baseline, most=99)
    assert results
    assert len({result.strategy.digest for result in results} | {winner.digest}) == len(results) + 1
    for result in results:
        assert list(strategy_faults(result.strategy, MODEL, CLUSTER)) == [], result.label
        assert HERE.why_not(result.strategy) is None, result.label
        touched = changed_variables(result.strategy, winner)
        assert touched, result.label
        assert [decision.variable for decision in result.strategy.variables] == [
            decision.variable for decision in winner.variables
        ]


def test_those_that_should_change_the_step_most_come_first_and_only_as_many_as_asked() -> None:
    winner = HERE.sample(random.Random(1))
    baseline = nearest_baseline(winner, MODEL, CLUSTER).strategy
    results = counterfactuals(MODEL, CLUSTER, winner, baseline, most=99)
    effects = [round(abs(np.log(result.predicted_worth)), 6) for result in results]
    assert effects == sorted(effects, reverse=True)
    assert counterfactuals(MODEL, CLUSTER, winner, baseline, most=2) == results[:2]


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
    worth = worth_of(ONE, REDUCED, rounds)
    assert worth.ratio == pytest.approx(1.5, rel=0.02)
    assert worth.interval is not None
    assert 1.4 < worth.interval[0] < 1.5 < worth.interval[1] < 1.6
    assert (worth.rounds, worth.note) == (4, "")


def test_a_worth_of_what_failed_or_had_no_time_says_why() -> None:
    failed = [[turn(REDUCED, 0.1, 0), turn(SERVED, 0.1, 1, outcome="failed")]]
    worth = worth_of(ONE, REDUCED, failed)
    assert (worth.ratio, worth.interval, worth.note) == (None, None, "a worker broke")
    assert worth_of(ONE, REDUCED, []).note == "The time ended before this decision was measured."


def test_a_worth_of_one_round_states_its_reservation() -> None:
    worth = worth_of(ONE, REDUCED, [[turn(REDUCED, 0.1, 0), turn(SERVED, 0.2, 1)]])
    assert worth.note == "1 round in turns is too few for an interval."


def test_an_overlap_is_a_decision_of_its_own_and_stays_where_others_are_reverted() -> None:
    winner = replace(with_decisions(REDUCED, SERVED.by_name[TOKEN]), overlap_next_forward=True)
    for baseline in (REDUCED, replace(REDUCED, overlap_next_forward=True)):
        strategies = reverted(winner, baseline)
        barrier = strategies.pop("all steps end with a barrier")
        assert not barrier.overlap_next_forward
        assert not changed_variables(barrier, winner)
        assert strategies
        assert all(strategy.overlap_next_forward for strategy in strategies.values())
    assert "all steps end with a barrier" not in reverted(REDUCED, SERVED)


def test_rows_that_are_sent_apart_are_one_decision_that_other_reversals_keep() -> None:
    model = cases.tied_model()
    baseline = BASELINES["balanced_parameter_server"](model, CLUSTER)
    reduced = BASELINES["all_reduce_64mb"](model, CLUSTER)
    winner = with_decisions(reduced, replace(reduced.by_name["table"], rows_apart=True))
    found = reverted(winner, baseline, model)
    together = found["table: looked-up rows sent together with the rest"]
    assert together.digest == reduced.digest
    others = [strategy for strategy in found.values() if strategy is not together]
    assert others
    assert all(strategy.rows_apart == ("table",) for strategy in others)
    nearest = nearest_baseline(winner, model, CLUSTER)
    assert [difference.here for difference in nearest.differences] == ["ring all-reduce, looked-up rows apart"]
