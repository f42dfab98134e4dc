"""Strategies, models and clusters in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosync.baselines import BASELINES
from autosync.spec import (
    AllReduce,
    Cast,
    ParameterServer,
    Partition,
    PowerSGD,
    Strategy,
    SufficientFactors,
    Synchronizer,
    TopK,
    VariableStrategy,
)
from autosync.words.quantities import megabytes, model_in_words
from autosync.words.strategy import decision_in_words, marked, strategy_in_words
from tests.cases import mlp_model, ncf_like_model, star_cluster, tied_model

MODEL, CLUSTER = mlp_model(), star_cluster(2)
SERVERS = tuple(str(device) for device in CLUSTER.server_devices)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (812, "812 B"), (1000, "1 kB"), (51_100, "51.1 kB"), (4.77e6, "4.77 MB"), (2e9, "2 GB")],
)
def test_bytes_are_said_with_three_digits(count: float, text: str) -> None:
    assert megabytes(count) == text


def test_a_model_is_said_with_its_sizes_and_its_sparse_rows() -> None:
    assert model_in_words(MODEL) == (
        "mlp: 0.085 M parameters in 6 variables, 340 kB of gradients a replica and step; batch 32 a replica; "
        "SGD(learning_rate=0.01)."
    )
    assert "(4 sparse, 841 rows touched); batch 256 a replica" in model_in_words(ncf_like_model())


def test_every_bucket_server_and_cut_variable_of_a_mixed_strategy_is_named() -> None:
    server = ParameterServer(SERVERS[0])
    decisions = (
        VariableStrategy("dense_0/kernel", (server, ParameterServer(SERVERS[1])), Partition(0, 2)),
        VariableStrategy("dense_0/bias", (server,)),
        VariableStrategy("dense_1/kernel", (AllReduce(0),)),
        VariableStrategy("dense_1/bias", (AllReduce(1),)),
        VariableStrategy("dense_2/kernel", (AllReduce(1),)),
        VariableStrategy("dense_2/bias", (AllReduce(1),)),
    )
    strategy = Strategy(tuple(str(device) for device in CLUSTER.replica_devices), decisions)
    assert strategy_in_words(strategy, MODEL) == [
        "Ring all-reduce in 2 buckets (262 kB, 11.3 kB): "
        "dense_1/kernel, dense_2/kernel, dense_1/bias and 1 more; 273 kB.",
        f"Parameter server {SERVERS[0]}: dense_0/kernel, dense_0/bias; 33.8 kB.",
        f"Parameter server {SERVERS[1]}: dense_0/kernel; 32.8 kB.",
        "Cut into shards: dense_0/kernel (2 on axis 0); 65.5 kB.",
    ]


def test_sparse_variables_that_are_all_reduced_are_said_to_be_gathered() -> None:
    model = ncf_like_model()
    lines = strategy_in_words(BASELINES["all_reduce_per_variable"](model, CLUSTER), model)
    assert any(
        line.startswith("Touched rows gathered by every replica: mlp/user, mlp/item, gmf/user and 1") for line in lines
    )


@pytest.mark.parametrize("name", BASELINES)
def test_the_words_for_a_baseline_account_for_every_byte(name: str) -> None:
    lines = strategy_in_words(BASELINES[name](MODEL, CLUSTER), MODEL)
    units = {"B": 1.0, "kB": 1e3, "MB": 1e6}
    said = [line.rstrip(".").rsplit("; ", 1)[1].split() for line in lines if not line.startswith("Cut")]
    assert sum(float(count) * units[unit] for count, unit in said) == pytest.approx(MODEL.gradient_bytes, rel=0.01)


def by(*shards: Synchronizer) -> list[str]:
    """The words for a strategy with these synchronizers per variable; the last one is for all further variables."""
    wanted = [*shards, *[shards[-1]] * (len(MODEL.variables) - len(shards))]
    decisions = tuple(
        VariableStrategy(variable.name, (shard,)) for variable, shard in zip(MODEL.variables, wanted, strict=True)
    )
    return strategy_in_words(Strategy(SERVERS, decisions), MODEL)


@pytest.mark.parametrize(
    ("shard", "start"),
    [
        (AllReduce(0, "tree"), "Binomial-tree all-reduce in 1 bucket"),
        (AllReduce(0, "halving_doubling"), "Halving-and-doubling all-reduce in 1 bucket"),
        (AllReduce(0, "collective"), "The framework's own collective all-reduce in 1 bucket"),
        (AllReduce(0, "rabenseifner"), "Rabenseifner all-reduce in 1 bucket"),
        (AllReduce(0, "direct"), "Direct-exchange all-reduce in 1 bucket"),
        (AllReduce(0, "fitted"), "Fitted all-reduce in 1 bucket"),
        (AllReduce(0, "hierarchical"), "Hierarchical all-reduce in 1 bucket"),
        (AllReduce(0, compressor=SufficientFactors()), "Sufficient factors gathered by every replica: dense_1/kernel"),
        (ParameterServer(SERVERS[0], local_copy=True), f"Parameter server {SERVERS[0]} (local copies): dense_1/kernel"),
    ],
)
def test_a_lossless_strategy_is_described_without_a_warning(shard: Synchronizer, start: str) -> None:
    (line,) = by(shard)
    assert line.startswith(start)


@pytest.mark.parametrize(
    ("shard", "way", "start"),
    [
        (
            AllReduce(0, "tree", Cast("bf16")),
            "gradients in bf16",
            "Binomial-tree all-reduce, gradients in bf16 in 1 bucket (340 kB): ",
        ),
        (
            AllReduce(0, compressor=TopK(0.01)),
            "top 1 % of the elements, each replica's own",
            "All-gather, top 1 % of the elements, each replica's own in 1 bucket (340 kB): ",
        ),
        (
            AllReduce(0, "ring", TopK(0.01, "star")),
            "top 1 % of the elements, each replica chooses in turn",
            "Ring all-reduce, top 1 % of the elements, each replica chooses in turn in 1 bucket (340 kB): ",
        ),
        (
            ParameterServer(SERVERS[1], compressor=PowerSGD(2)),
            "PowerSGD of rank 2",
            f"Parameter server {SERVERS[1]} (PowerSGD of rank 2): ",
        ),
        (
            ParameterServer(SERVERS[1], staleness=1),
            "replicas up to 1 step apart",
            f"Parameter server {SERVERS[1]} (staleness 1): ",
        ),
    ],
)
def test_a_change_of_the_statistics_is_stated_first(shard: Synchronizer, way: str, start: str) -> None:
    warning, line = by(shard)
    assert warning == (
        f"CHANGES THE STATISTICS of training ({way}): it is only as good as the loss it reaches, "
        f"so a shorter step alone does not make it better."
    )
    assert line.startswith(start)


def test_buckets_of_different_kinds_have_a_line_each() -> None:
    lines = by(AllReduce(0), AllReduce(1, "tree"), AllReduce(1, "tree"), AllReduce(0))
    assert [line.split(":")[0] for line in lines] == [
        "Binomial-tree all-reduce in 1 bucket (263 kB)",
        "Ring all-reduce in 1 bucket (76.8 kB)",
    ]


def test_the_label_of_a_lossy_strategy_says_so_in_a_table() -> None:
    assert (marked("guided", False), marked("guided", True)) == ("guided", "guided (lossy)")


def test_rows_that_are_sent_apart_are_said() -> None:
    model = tied_model()
    together = BASELINES["all_reduce_25mb"](model, CLUSTER)
    table, *others = together.variables
    strategy = replace(together, variables=(replace(table, rows_apart=True), *others))
    first, reduced, gathered = strategy_in_words(strategy, model)
    assert first == "The looked-up rows of table travel apart from the rest of its gradient, which is ready earlier."
    assert reduced.startswith("Ring all-reduce in 1 bucket")
    assert gathered.startswith("Touched rows gathered by every replica: table (rows)")
    assert decision_in_words(strategy.variables[0], model.variables[0]) == "ring all-reduce, looked-up rows apart"
