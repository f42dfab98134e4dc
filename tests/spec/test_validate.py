"""Every reason why a strategy cannot hold for a model and a cluster."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from autosync.errors import SpecError
from autosync.spec import (
    AllReduce,
    ParameterServer,
    Partition,
    Strategy,
    Synchronizer,
    VariableStrategy,
    check_strategy,
    strategy_faults,
)
from tests import cases

CLUSTER = cases.local_cluster(2)
SERVERS = "Servers: node0/cpu:0, node0/cpu:1."


def strategy(**changes: VariableStrategy) -> Strategy:
    """The prime model all-reduced, but for `changes` (embedding, kernel, bias)."""
    usual = {
        "embedding": VariableStrategy("user/embedding", (ParameterServer("node0/cpu:0"),)),
        "kernel": VariableStrategy("dense/kernel", (AllReduce(0),)),
        "bias": VariableStrategy("dense/bias", (AllReduce(0),)),
    }
    return Strategy(("node0/cpu:0", "node0/cpu:1"), tuple((usual | changes).values()))


BUCKET = AllReduce(0)


def cut(name: str, axis: int, shards: int, synchronizer: Synchronizer = BUCKET) -> VariableStrategy:
    return VariableStrategy(name, (synchronizer,) * shards, Partition(axis, shards))


def faults(given: Strategy) -> list[str]:
    return list(strategy_faults(given, cases.prime_model(), CLUSTER))


def test_a_strategy_that_fits_has_no_fault():
    assert faults(strategy()) == []
    check_strategy(strategy(), cases.prime_model(), CLUSTER)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (
            replace(strategy(), replicas=("node0/cpu:0", "node9/cpu:0")),
            "Replica 'node9/cpu:0' is not in the cluster. Replicas can run on: node0/cpu:0, node0/cpu:1.",
        ),
        (
            replace(strategy(), variables=strategy().variables[:2]),
            "Variable 'dense/bias' has no synchronizer; it would train differently on every replica. Add it.",
        ),
        (
            strategy(more=VariableStrategy("nosuch", (AllReduce(1),))),
            "Model 'prime' has no variable 'nosuch'; remove it from the strategy.",
        ),
        (
            strategy(kernel=cut("dense/kernel", 2, 2)),
            "Variable 'dense/kernel' has shape [16, 7919], so it cannot be cut along axis 2.",
        ),
        (
            strategy(kernel=cut("dense/kernel", 0, 17)),
            "Variable 'dense/kernel' has 16 rows on axis 0, too few for 17 shards.",
        ),
        (
            strategy(embedding=cut("user/embedding", 1, 2, ParameterServer("node0/cpu:0"))),
            "Variable 'user/embedding' has a sparse gradient, so it can only be cut along axis 0, not 1.",
        ),
        (
            strategy(bias=VariableStrategy("dense/bias", (ParameterServer("node0/gpu:0"),))),
            f"Variable 'dense/bias' is put on 'node0/gpu:0', which cannot hold parameters. {SERVERS}",
        ),
        (
            strategy(bias=VariableStrategy("dense/bias", (ParameterServer("node0/cpu:1", staleness=2),))),
            "Variable 'dense/bias' asks for staleness 2; only synchronous training (staleness 0) is offered so far.",
        ),
    ],
)
def test_a_fault_is_told_in_one_sentence(given: Strategy, fault: str):
    assert faults(given) == [fault]


def test_a_prime_number_of_rows_may_be_cut_unevenly():
    assert faults(strategy(embedding=cut("user/embedding", 0, 4, ParameterServer("node0/cpu:1")))) == []


def test_a_scalar_cannot_be_cut():
    model = cases.scalar_model()
    variables = (cut("a", 0, 2), *(VariableStrategy(name, (AllReduce(0),)) for name in "bc"))
    given = Strategy(("node0/cpu:0",), variables)
    assert list(strategy_faults(given, model, CLUSTER)) == [
        "Variable 'a' has shape [], so it cannot be cut along axis 0."
    ]


def test_a_bucket_of_two_dtypes_is_a_fault():
    model = cases.mixed_precision_model()
    names = [variable.name for variable in model.variables]
    groups = [0, 0, 1, 2, 1, 2]
    given = Strategy(
        ("node0/cpu:0",),
        tuple(VariableStrategy(name, (AllReduce(group),)) for name, group in zip(names, groups, strict=True)),
    )
    assert list(strategy_faults(given, model, CLUSTER)) == [
        "All-reduce group 0 mixes float16 ring with float32 ring (variable 'layer_1/kernel'); "
        "a bucket has one dtype and one algorithm. Give it a group of its own."
    ]


def test_checking_raises_the_first_fault_and_counts_the_others():
    given = replace(strategy(), variables=())
    with pytest.raises(SpecError, match=re.escape("Add it. (and 2 more faults)")):
        check_strategy(given, cases.prime_model(), CLUSTER)
    one = replace(strategy(), variables=strategy().variables[:2])
    with pytest.raises(SpecError, match=re.escape("Variable 'dense/bias' has no synchronizer") + r".*Add it\.$"):
        check_strategy(one, cases.prime_model(), CLUSTER)
