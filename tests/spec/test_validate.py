"""Every reason why a strategy does not fit a model and a cluster."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from autosync.errors import SpecError
from autosync.spec import (
    AllReduce,
    Cast,
    DDPSettings,
    Discipline,
    Elastic,
    ModelSpec,
    ParameterServer,
    Partition,
    PowerSGD,
    Rhythm,
    Strategy,
    SufficientFactors,
    Synchronizer,
    TopK,
    VariableStrategy,
    check_step_time_ranks,
    check_strategy,
    strategy_faults,
)
from tests import cases

CLUSTER = cases.local_cluster(2)
CLUSTER_REPLICAS = tuple(map(str, CLUSTER.replica_devices))
PLACE = "node0/cpu:0"
SERVERS = "Servers: node0/cpu:0, node0/cpu:1."


def strategy(**changes: VariableStrategy) -> Strategy:
    """The prime model with all variables all-reduced, except for `changes` (embedding, kernel, bias)."""
    usual = {
        "embedding": VariableStrategy("user/embedding", (ParameterServer("node0/cpu:0"),)),
        "kernel": VariableStrategy("dense/kernel", (AllReduce(0),)),
        "bias": VariableStrategy("dense/bias", (AllReduce(0),)),
    }
    return Strategy(("node0/cpu:0", "node0/cpu:1"), tuple((usual | changes).values()))


BUCKET = AllReduce(0)


def cut(name: str, axis: int, shards: int, synchronizer: Synchronizer = BUCKET) -> VariableStrategy:
    return VariableStrategy(name, (synchronizer,) * shards, Partition(axis, shards))


def faults(candidate: Strategy) -> list[str]:
    return list(strategy_faults(candidate, cases.prime_model(), CLUSTER))


def test_a_strategy_that_fits_has_no_fault():
    assert faults(strategy()) == []
    check_strategy(strategy(), cases.prime_model(), CLUSTER)


@pytest.mark.parametrize(
    ("candidate", "fault"),
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
            Strategy(("node9/cpu:0",), (VariableStrategy("0.weight", (AllReduce(0),)), *strategy().variables[1:])),
            "A strategy belongs to one model, and this strategy is another model's: it decides variable '0.weight', "
            "which model 'prime' lacks, and leaves out variable 'user/embedding'. Find a strategy for this model with "
            "autosync tune.",
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
            strategy(embedding=VariableStrategy("user/embedding", (AllReduce(1, "tree"),))),
            "Variable 'user/embedding' is gathered from all replicas, not summed on the way, so algorithm 'tree' has "
            "no effect; leave it 'ring'.",
        ),
        (
            strategy(kernel=VariableStrategy("dense/kernel", (AllReduce(1, "tree", TopK(0.1)),))),
            "Variable 'dense/kernel' is gathered from all replicas, not summed on the way, so algorithm 'tree' has "
            "no effect; leave it 'ring'.",
        ),
        (
            strategy(embedding=VariableStrategy("user/embedding", (AllReduce(1, "ring", PowerSGD(2)),))),
            "Variable 'user/embedding' has a sparse gradient, which can be cast to 16 bits or left, not power_sgd 2.",
        ),
        (
            strategy(kernel=VariableStrategy("dense/kernel", (ParameterServer(PLACE, compressor=TopK(0.1, "star")),))),
            "Variable 'dense/kernel' is on a server, where top-k's indices are each replica's 'own', not shared.",
        ),
        (
            strategy(kernel=VariableStrategy("dense/kernel", (AllReduce(1, "ring", SufficientFactors()),))),
            "Variable 'dense/kernel' has no sufficient factors: its gradient is not one product of two matrices.",
        ),
        (
            strategy(bias=VariableStrategy("dense/bias", (AllReduce(0, "ring", Cast("bf16")),))),
            "All-reduce group 0 mixes float32 ring with float32 ring bf16 (variable 'dense/bias'); a bucket has one "
            "dtype, algorithm and compressor. Give it its own.",
        ),
        (
            strategy(kernel=VariableStrategy("dense/kernel", (AllReduce(1, "collective", Cast("fp16")),))),
            "Variable 'dense/kernel' is sent in fp16 by a collective, whose sums cannot carry fp16's scales; "
            "use bf16 or another algorithm.",
        ),
    ],
)
def test_a_fault_is_told_in_one_sentence(candidate: Strategy, fault: str):
    assert faults(candidate) == [fault]


def test_a_prime_number_of_rows_may_be_cut_unevenly():
    assert faults(strategy(embedding=cut("user/embedding", 0, 4, ParameterServer("node0/cpu:1")))) == []


def test_a_scalar_cannot_be_cut():
    model = cases.scalar_model()
    variables = (cut("a", 0, 2), *(VariableStrategy(name, (AllReduce(0),)) for name in "bc"))
    candidate = Strategy(("node0/cpu:0",), variables)
    assert list(strategy_faults(candidate, model, CLUSTER)) == [
        "Variable 'a' has shape [], so it cannot be cut along axis 0."
    ]


def on_server(staleness: int, compressor: Cast | None = None) -> tuple[ParameterServer]:
    return (ParameterServer(PLACE, staleness=staleness, compressor=compressor),)


@pytest.mark.parametrize(
    ("kernel", "bias", "fault"),
    [
        ((AllReduce(0),), on_server(2), "Staleness 2 needs every shard on a parameter server, but variable"),
        (on_server(1), on_server(2), "All shards must have one staleness, but variable 'dense/kernel' has 1"),
        (on_server(2, Cast("bf16")), on_server(2), "Variable 'dense/kernel' is compressed; with staleness 2 gradients"),
        (
            (ParameterServer(PLACE, True, staleness=2),),
            on_server(2),
            "Variable 'dense/kernel' has local copies, which a node's replicas share within a step; with staleness 2",
        ),
    ],
)
def test_staleness_is_of_the_whole_strategy(kernel, bias, fault: str):
    candidate = strategy(
        embedding=VariableStrategy("user/embedding", on_server(2)),
        kernel=VariableStrategy("dense/kernel", kernel),
        bias=VariableStrategy("dense/bias", bias),
    )
    sentences = faults(candidate)
    assert len(sentences) == 1
    assert sentences[0].startswith(fault)


def test_a_strategy_of_one_staleness_fits():
    names = ("user/embedding", "dense/kernel", "dense/bias")
    candidate = Strategy(strategy().replicas, tuple(VariableStrategy(name, on_server(3)) for name in names))
    assert faults(candidate) == []
    assert candidate.staleness == 3
    assert candidate.changes_statistics


def _with_factors(model: ModelSpec, name: str, rows: int) -> ModelSpec:
    variables = (
        replace(variable, factor_rows=rows) if variable.name == name else variable for variable in model.variables
    )
    return replace(model, variables=tuple(variables))


def test_sufficient_factors_stand_for_a_whole_matrix():
    model = _with_factors(cases.prime_model(), "dense/kernel", 8)
    factors = AllReduce(1, "ring", SufficientFactors())
    whole, in_two = VariableStrategy("dense/kernel", (factors,)), cut("dense/kernel", 0, 2, factors)
    assert list(strategy_faults(strategy(kernel=whole), model, CLUSTER)) == []
    assert (
        list(strategy_faults(strategy(kernel=in_two), model, CLUSTER))
        == ["Variable 'dense/kernel' is cut, but sufficient factors stand for a whole matrix; leave it whole."] * 2
    )


def test_replicas_of_a_collective_are_devices_of_one_kind():
    with_gpus = cases.gpu_cluster(nodes=2, gpus=1)
    first, last = with_gpus.nodes
    mixed = replace(with_gpus, nodes=(first, replace(last, gpus=0)))
    bias = VariableStrategy("dense/bias", (AllReduce(1, "collective"),))
    variables = tuple(
        bias
        if decision.variable == bias.variable
        else VariableStrategy(decision.variable, (ParameterServer("node0/cpu:0"),))
        for decision in strategy().variables
    )
    two_kinds, alike = (Strategy(tuple(map(str, cluster.replica_devices)), variables) for cluster in (mixed, with_gpus))
    assert list(strategy_faults(two_kinds, cases.prime_model(), mixed)) == [
        "Variable 'dense/bias' is reduced by a collective, whose replicas are devices of one kind, but there are cpu "
        "and gpu; use another algorithm."
    ]
    assert list(strategy_faults(alike, cases.prime_model(), with_gpus)) == []


def test_gradients_of_16_bits_are_not_compressed():
    model = cases.mixed_precision_model()
    half = next(variable for variable in model.variables if variable.dtype == "float16")
    variables = tuple(
        VariableStrategy(variable.name, (AllReduce(1 + i, "ring", Cast("bf16") if variable is half else None),))
        for i, variable in enumerate(model.variables)
    )
    assert list(strategy_faults(Strategy(("node0/cpu:0",), variables), model, CLUSTER)) == [
        f"Variable {half.name!r} is float16; only gradients of 32 or 64 bits are compressed. Leave it out."
    ]


def test_a_bucket_of_two_dtypes_is_a_fault():
    model = cases.mixed_precision_model()
    names = [variable.name for variable in model.variables]
    groups = [0, 0, 1, 2, 1, 2]
    candidate = Strategy(
        ("node0/cpu:0",),
        tuple(VariableStrategy(name, (AllReduce(group),)) for name, group in zip(names, groups, strict=True)),
    )
    assert list(strategy_faults(candidate, model, CLUSTER)) == [
        "All-reduce group 0 mixes float16 ring with float32 ring (variable 'layer_1/kernel'); "
        "a bucket has one dtype, algorithm and compressor. Give it its own."
    ]


def test_checking_raises_the_first_fault_and_counts_the_others():
    empty = replace(strategy(), variables=())
    with pytest.raises(SpecError, match=re.escape("Add it. (and 2 more faults)")):
        check_strategy(empty, cases.prime_model(), CLUSTER)
    partial = replace(strategy(), variables=strategy().variables[:2])
    with pytest.raises(SpecError, match=re.escape("Variable 'dense/bias' has no synchronizer") + r".*Add it\.$"):
        check_strategy(partial, cases.prime_model(), CLUSTER)


def test_with_a_rhythm_replicas_hold_all_values_and_send_uncompressed():
    local = replace(strategy(), discipline=Discipline(Rhythm(8)))
    (fault,) = faults(local)
    assert fault == (
        "A rhythm needs every shard all-reduced, since replicas that do not meet have values of their own, but "
        "variable 'user/embedding' is on a parameter server."
    )
    reduced = VariableStrategy("user/embedding", (AllReduce(1),))
    kernel = VariableStrategy("dense/kernel", (AllReduce(2, compressor=Cast("bf16")),))
    assert not faults(replace(strategy(embedding=reduced), discipline=local.discipline))
    (fault,) = faults(replace(strategy(embedding=reduced, kernel=kernel), discipline=local.discipline))
    assert fault == "Variable 'dense/kernel' is compressed; with a rhythm values and gradients are sent uncompressed."


def test_a_centre_is_not_pulled_further_than_to_the_replicas_mean():
    reduced = strategy(embedding=VariableStrategy("user/embedding", (AllReduce(1),)))
    near, over = (replace(reduced, discipline=Discipline(Rhythm(8, elastic=Elastic(pull)))) for pull in (0.5, 0.6))
    assert not faults(near)
    (fault,) = faults(over)
    assert fault.endswith("is at most 1, or the centre overshoots, not 0.6 times 2.")


def test_a_step_time_ranks_no_strategy_whose_steps_differ():
    check_step_time_ranks(strategy())
    with pytest.raises(SpecError, match=r"^Step times cannot rank a strategy with a discipline, whose steps"):
        check_step_time_ranks(replace(strategy(), discipline=Discipline(Rhythm(8))))


def test_steps_overlap_with_the_next_forward_pass_only_if_all_replicas_wait_for_all_values():
    overlapped = replace(strategy(), overlap_next_forward=True)
    assert not faults(overlapped)
    reduced = VariableStrategy("user/embedding", (AllReduce(1),))
    with_rhythm = replace(strategy(embedding=reduced), discipline=Discipline(Rhythm(8)), overlap_next_forward=True)
    (fault,) = faults(with_rhythm)
    assert fault == (
        "Steps cannot overlap with the next forward pass, because a discipline decides between two steps; set "
        "overlap_next_forward to false."
    )
    assert any("DistributedDataParallel ends" in fault for fault in faults(replace(overlapped, ddp=DDPSettings())))


def test_only_rows_of_a_tied_table_are_sent_apart():
    model = cases.tied_model()
    usual = Strategy(CLUSTER_REPLICAS, tuple(VariableStrategy(v.name, (AllReduce(0),)) for v in model.variables))

    def of(name: str, shard: Synchronizer = BUCKET, **fields: Any) -> list[str]:
        apart = VariableStrategy(name, (shard,), rows_apart=True)
        others = tuple(decision for decision in usual.variables if decision.variable != name)
        return list(strategy_faults(replace(usual, variables=(apart, *others), **fields), model, CLUSTER))

    assert of("table") == of("table", ParameterServer(PLACE)) == of("table", overlap_next_forward=True) == []
    assert of("hidden") == [
        "The looked-up rows of variable 'hidden' cannot be sent apart, because its profile has no lookup of rows "
        "beside a read of the whole variable; set rows_apart to false."
    ]
    stale = ParameterServer(PLACE, staleness=1)
    assert any("with staleness replicas do not wait" in fault for fault in of("table", stale))
    assert any("DistributedDataParallel sends whole" in fault for fault in of("table", ddp=DDPSettings()))
    assert any("decides between two steps" in fault for fault in of("table", discipline=Discipline(Rhythm(8))))
