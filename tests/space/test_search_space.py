"""The promises of a search space, for every declared space, model and cluster."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosync.space import Cut, PerServer, Rule, SearchSpace, Servers, Space, VariableFilter
from autosync.spec import AllReduce, ParameterServer, Partition, Strategy, VariableStrategy, strategy_faults
from search_spaces import bert, cnn, default, lossy, ncf, tiny
from tests import cases
from tests.space.wide import WIDE, factored_model

AWKWARD = Space(
    "awkward",
    rules=(
        Rule(VariableFilter(sparse=True), servers=Servers(("node0/cpu:0",)), cut=Cut((PerServer(1),))),
        Rule(
            VariableFilter(over_bytes=100_000),
            servers=Servers("one_per_node", (True,)),
            cut=Cut((3,)),
            mixed_shards=True,
        ),
        Rule(
            VariableFilter(over_bytes=1_000),
            servers=Servers(),
            all_reduce=True,
            cut=Cut((1, 2), "every"),
            mixed_shards=True,
        ),
        Rule(all_reduce=True),
    ),
    max_buckets=3,
)
SPACES = [default.SPACE, bert.SPACE, cnn.SPACE, ncf.SPACE, tiny.SPACE, lossy.SPACE, AWKWARD, WIDE]
MODELS = [
    factored_model(),
    cases.bert_like_model(layers=1),
    cases.ncf_like_model(),
    cases.prime_model(),
    cases.scalar_model(),
    cases.mixed_precision_model(),
]
CLUSTERS = [
    cases.local_cluster(4),
    cases.local_cluster(1),
    cases.star_cluster(4),
    cases.star_cluster(2, workers=2),
    cases.uneven_cluster(),
    cases.gpu_cluster(),
]
BOUND = [space.bind(model, cluster) for space, model, cluster in product(SPACES, MODELS, CLUSTERS)]

seeds = st.integers(0, 10**9)
bound_spaces = st.sampled_from(BOUND)


def check(space: SearchSpace, strategy: Strategy) -> None:
    """Check that the strategy is valid, inside, canonical, complete and in graph order."""
    assert list(strategy_faults(strategy, space.model, space.cluster)) == []
    assert space.why_not(strategy) is None
    assert space.contains(strategy)
    assert space.canonical(strategy) is strategy
    assert strategy.replicas == space.replicas
    assert [decision.variable for decision in strategy.variables] == [
        variable.name for variable in space.model.variables
    ]


@settings(max_examples=400)
@given(bound_spaces, seeds)
def test_every_sample_lies_inside(space: SearchSpace, seed: int):
    check(space, space.sample(random.Random(seed)))


@settings(max_examples=400)
@given(bound_spaces, seeds)
def test_every_mutant_lies_inside_and_differs_where_there_is_another(space: SearchSpace, seed: int):
    rng = random.Random(seed)
    parent = space.sample(rng)
    child = space.mutate(parent, rng)
    check(space, child)
    assert child.digest != parent.digest or space.size == 1


@settings(max_examples=400)
@given(bound_spaces, seeds)
def test_every_child_of_two_lies_inside_and_cuts_each_variable_as_a_parent_does(space: SearchSpace, seed: int):
    rng = random.Random(seed)
    first, second = space.sample(rng), space.sample(rng)
    child = space.crossover(first, second, rng)
    check(space, child)
    for ours, left, right in zip(child.variables, first.variables, second.variables, strict=True):
        kinds = [type(shard) for shard in ours.shards]
        assert (ours.partition, kinds) in [
            (parent.partition, [type(shard) for shard in parent.shards]) for parent in (left, right)
        ]


@settings(max_examples=300)
@given(bound_spaces, bound_spaces, seeds)
def test_a_strategy_of_another_space_is_adopted(space: SearchSpace, elsewhere: SearchSpace, seed: int):
    rng = random.Random(seed)
    check(space, space.adopt(elsewhere.sample(rng), rng))


@settings(max_examples=300)
@given(bound_spaces, seeds)
def test_adopting_changes_nothing_inside(space: SearchSpace, seed: int):
    rng = random.Random(seed)
    strategy = space.sample(rng)
    assert space.adopt(strategy, rng) == strategy


@settings(max_examples=150)
@given(bound_spaces, bound_spaces, seeds)
def test_strategies_from_outside_can_be_mutated_and_crossed(space: SearchSpace, elsewhere: SearchSpace, seed: int):
    rng = random.Random(seed)
    outside = elsewhere.sample(rng)
    check(space, space.mutate(outside, rng))
    check(space, space.crossover(outside, space.sample(rng), rng))


@settings(max_examples=150)
@given(bound_spaces, seeds)
def test_the_same_seed_gives_the_same_strategies(space: SearchSpace, seed: int):
    def chain() -> list[str]:
        rng = random.Random(seed)
        first, second = space.sample(rng), space.sample(rng)
        return [strategy.digest for strategy in (first, space.mutate(first, rng), space.crossover(first, second, rng))]

    assert chain() == chain()


SCRIPT = """
import random
from search_spaces.default import SPACE
from tests import cases
space, rng = SPACE.bind(cases.bert_like_model(), cases.star_cluster(workers=2)), random.Random(5)
found = [space.sample(rng) for _ in range(5)]
for _ in range(20):
    found.append(space.mutate(rng.choice(found), rng))
    found.append(space.crossover(rng.choice(found), rng.choice(found), rng))
print([each.digest for each in found])
"""


def test_another_process_draws_the_same_strategies():
    def run(hash_seed: str) -> str:
        environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)}
        return subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, check=True, capture_output=True, text=True
        ).stdout

    assert run("1") == run("2") != ""


def small() -> SearchSpace:
    rules = (
        Rule(VariableFilter(named=("a",)), servers=Servers("first")),
        Rule(VariableFilter(named=("b",)), all_reduce=True),
        Rule(servers=Servers(), all_reduce=True),
    )
    return Space("small", rules).bind(cases.scalar_model(), cases.local_cluster(2))


def strategy(a: object = None, b: object = None, c: object = None) -> Strategy:
    shards = (a or ParameterServer("node0/cpu:0"), b or AllReduce(0), c or AllReduce(0))
    variables = tuple(VariableStrategy(name, (shard,)) for name, shard in zip("abc", shards, strict=True))  # type: ignore[arg-type]
    return Strategy(("node0/cpu:0", "node0/cpu:1"), variables)


@pytest.mark.parametrize(
    ("strategy", "reason"),
    [
        (strategy(), None),
        (strategy(c=ParameterServer("node0/cpu:1")), None),
        (
            Strategy(("node0/cpu:1",), strategy().variables),
            "The space trains on the replicas node0/cpu:0, node0/cpu:1, not node0/cpu:1.",
        ),
        (
            Strategy(strategy().replicas, (*strategy().variables, VariableStrategy("d", (AllReduce(0),)))),
            "Model 'scalars' has no variable 'd'.",
        ),
        (Strategy(strategy().replicas, strategy().variables[:2]), "Variable 'c' is not decided."),
        (
            strategy(a=ParameterServer("node0/cpu:1")),
            "Variable 'a' is on node0/cpu:1; the space offers: node0/cpu:0.",
        ),
        (
            strategy(c=ParameterServer("node0/cpu:1", local_copy=True)),
            "Variable 'c' is on node0/cpu:1 with a local copy; the space offers: node0/cpu:0, node0/cpu:1.",
        ),
        (
            strategy(b=ParameterServer("node0/cpu:0")),
            "Variable 'b' is on node0/cpu:0; the space offers: all-reduce only.",
        ),
        (strategy(a=AllReduce(0)), "Variable 'a' is all-reduced; the space offers it parameter servers only."),
        (
            strategy(c=AllReduce(1)),
            "There are more than 1 buckets of dense float32 gradients; the space allows no more.",
        ),
    ],
)
def test_why_a_strategy_lies_outside_is_told_in_one_sentence(strategy: Strategy, reason: str | None):
    assert small().why_not(strategy) == reason


def test_a_cut_that_is_not_offered_is_answered_with_those_that_are():
    space = default.SPACE.bind(cases.prime_model(), cases.local_cluster(2))
    whole = space.adopt(strategy_of_prime(1), random.Random(0))
    assert whole.by_name["user/embedding"].partition is None
    assert space.why_not(strategy_of_prime(7)) == (
        "Variable 'user/embedding' is cut in 7 along axis 0; the space offers: whole, cut in 2 along axis 0, "
        "cut in 3 along axis 0, cut in 4 along axis 0."
    )


def strategy_of_prime(shards: int) -> Strategy:
    cut = Partition(0, shards) if shards > 1 else None
    return Strategy(
        ("node0/cpu:0", "node0/cpu:1"),
        (
            VariableStrategy("user/embedding", (ParameterServer("node0/cpu:0"),) * shards, cut),
            VariableStrategy("dense/kernel", (AllReduce(0),)),
            VariableStrategy("dense/bias", (AllReduce(0),)),
        ),
    )


def test_shards_of_two_kinds_lie_outside_where_a_rule_wants_one():
    rule = Rule(servers=Servers(), all_reduce=True, cut=Cut((1, 2)))
    space = Space("unmixed", (rule,)).bind(cases.prime_model(), cases.local_cluster(2))
    mixed = VariableStrategy("user/embedding", (ParameterServer("node0/cpu:0"), AllReduce(1)), Partition(0, 2))
    strategy = Strategy(space.replicas, (mixed, *strategy_of_prime(1).variables[1:]))
    assert space.why_not(strategy) == (
        "Variable 'user/embedding' mixes servers and all-reduce; the space gives its shards one kind."
    )


def test_a_bucket_of_sparse_and_dense_gradients_lies_outside():
    space = default.SPACE.bind(cases.prime_model(), cases.local_cluster(2))
    variables = tuple(VariableStrategy(variable.name, (AllReduce(4),)) for variable in space.model.variables)
    assert space.why_not(Strategy(space.replicas, variables)) == (
        "Bucket 4 mixes sparse float32 with dense float32 gradients (variable 'dense/kernel'); "
        "a bucket of the space holds one kind."
    )
