"""Strategies that DistributedDataParallel carries out state its buckets, and differ by its settings."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from autosync.baselines import (
    BASELINES,
    DDP_BASELINES,
    PRIORITY_BASELINES,
    baselines_for,
    different_strategies,
    is_default,
)
from autosync.baselines.ddp import ddp_choices, ddp_grid, in_bf16, under_ddp
from autosync.errors import SpecError
from autosync.spec import (
    AllReduce,
    Cast,
    CutOff,
    DDPSettings,
    Discipline,
    ModelSpec,
    Partition,
    Strategy,
    VariableStrategy,
    canonical_strategy,
    strategy_faults,
    uncut,
)
from autosync.words.strategy import strategy_in_words
from search_spaces import load_space
from tests import cases
from tests.baselines.test_baselines import CLUSTERS, MODELS, dense_model

HERE = cases.star_cluster()


def buckets(strategy: Strategy) -> list[str]:
    """The variables of each bucket, in graph order."""
    members: dict[int, str] = {}
    for decision in strategy.variables:
        (shard,) = decision.shards
        assert isinstance(shard, AllReduce)
        members[shard.group] = members.get(shard.group, "") + f"{decision.variable} "
    return list(members.values())


@pytest.mark.parametrize(
    ("settings", "filled"),
    [
        (DDPSettings(), ["v0 v1 ", "v2 v3 ", "v4 v5 "]),
        (DDPSettings((25.0,)), ["v0 v1 v2 ", "v3 v4 v5 "]),
        (DDPSettings((0.5, 1.0, 10.0)), ["v0 ", "v1 ", "v2 ", "v3 v4 ", "v5 "]),
        (DDPSettings((100.0,)), ["v0 v1 v2 v3 v4 v5 "]),
    ],
    ids=lambda value: value.in_words if isinstance(value, DDPSettings) else "",
)
def test_a_bucket_closes_once_it_reaches_its_cap(settings: DDPSettings, filled: list[str]) -> None:
    assert buckets(under_ddp(dense_model(0.5, 1, 24, 4, 7, 2), HERE, settings)) == filled


@pytest.mark.parametrize("name", DDP_BASELINES)
def test_they_fit_every_model_on_replicas_of_a_kind(name: str) -> None:
    for model in MODELS:
        for cluster in CLUSTERS.values():
            strategy = DDP_BASELINES[name](model, cluster)
            kinds = {device.kind for device in cluster.replica_devices}
            refused = len(kinds) > 1 or ("zero" in name and len({variable.dtype for variable in model.variables}) > 1)
            assert any(strategy_faults(strategy, model, cluster)) == refused
            assert canonical_strategy(strategy, cluster) == strategy
            assert Strategy.from_json(strategy.to_json()) == strategy


def test_settings_make_another_strategy_and_strategies_without_them_keep_their_digest() -> None:
    model = cases.mlp_model()
    strategies = [under_ddp(model, HERE, DDPSettings((), *pair)) for pair in ((False,), (True,), (False, True))]
    plain = replace(strategies[0], ddp=None)
    assert len({plain.digest, *(strategy.digest for strategy in strategies)}) == 4
    assert "ddp" not in plain.to_json()


def test_a_search_of_pytorch_models_has_them_and_ddps_default_is_its_default() -> None:
    assert next(iter(baselines_for("pytorch"))) == "ddp"
    assert set(baselines_for("pytorch")) == {*BASELINES, *PRIORITY_BASELINES, *DDP_BASELINES}
    assert baselines_for("tensorflow") is BASELINES
    assert [name for name in baselines_for("pytorch") if is_default(name, "pytorch")] == ["ddp"]
    assert [name for name in BASELINES if is_default(name, None)] == ["all_reduce_25mb", "all_reduce_64mb"]
    different = different_strategies(DDP_BASELINES, dense_model(2, 4), HERE)
    settings = ["ddp_views", "ddp_static_graph", "ddp_zero", "ddp_zero_views"]
    assert list(different) == ["ddp", "ddp_one_size", "ddp_per_parameter", *settings]


@pytest.mark.parametrize("model", [*MODELS, dense_model(*[3.0] * 40)], ids=lambda model: model.name)
def test_the_space_and_the_grid_hold_different_buckets(model: ModelSpec) -> None:
    choices, grid = ddp_choices(model, HERE), ddp_grid(model, HERE)
    assert len({strategy.digest for strategy in choices}) == len(choices)
    assert len({strategy.variables for strategy in grid.values()}) == len(grid)
    assert {strategy.variables for strategy in grid.values()} <= {strategy.variables for strategy in choices}
    for strategy in (*choices, *grid.values()):
        assert not any(strategy_faults(strategy, model, HERE))
    settings = [strategy.ddp for strategy in choices if strategy.ddp is not None]
    assert {setting.gradient_as_bucket_view for setting in settings} == {False, True}
    assert DDPSettings((), gradient_as_bucket_view=True) in settings


def test_the_lossy_space_also_holds_all_choices_in_bf16_and_they_change_statistics() -> None:
    model = cases.mlp_model()
    exact, both = ddp_choices(model, HERE), ddp_choices(model, HERE, compresses=True)
    lossy = both[len(exact) :]
    assert both[: len(exact)] == exact
    assert [replace(in_bf16(strategy, model)) for strategy in exact] == list(lossy)
    assert all(strategy.changes_statistics for strategy in lossy)
    assert not any(strategy.changes_statistics for strategy in exact)
    space = load_space("ddp_lossy").bind(model, HERE)
    for strategy in lossy:
        assert not any(strategy_faults(strategy, model, HERE))
        assert space.contains(replace(strategy, ddp=None))


def test_the_declared_space_allows_the_buckets_alone() -> None:
    """Its rules hold the decisions of DDP's strategies, but engines do not carry these out."""
    space = load_space("ddp").bind(cases.mlp_model(), HERE)
    strategy = under_ddp(cases.mlp_model(), HERE, DDPSettings())
    assert space.contains(replace(strategy, ddp=None))
    assert space.why_not(strategy) == (
        "A space holds strategies of the engine, but DistributedDataParallel itself carries out this one."
    )


def faulty(change: Any) -> list[str]:
    model = cases.mlp_model()
    return list(strategy_faults(change(under_ddp(model, HERE, DDPSettings())), model, HERE))


def first(decision: VariableStrategy) -> Any:
    return lambda strategy: replace(strategy, variables=(decision, *strategy.variables[1:]))


@pytest.mark.parametrize(
    "shard",
    [AllReduce(7), AllReduce(7, "tree"), AllReduce(7, "collective", Cast("fp16"))],
    ids=lambda s: str(s.to_json()),
)
def test_decisions_that_ddp_does_not_take_are_refused(shard: AllReduce) -> None:
    name = cases.mlp_model().variables[0].name
    fault = f"Variable '{name}' must be whole and all-reduced by 'collective', uncompressed or in bf16, because"
    assert any(sentence.startswith(fault) for sentence in faulty(first(uncut(name, shard))))
    halves = VariableStrategy(name, (AllReduce(7, "collective"),) * 2, Partition(0, 2))
    assert any(sentence.startswith(fault) for sentence in faulty(first(halves)))


def test_a_discipline_is_refused() -> None:
    waits = Discipline(waits=CutOff(2))
    assert any("steps are all alike" in fault for fault in faulty(lambda strategy: replace(strategy, discipline=waits)))


@pytest.mark.parametrize("cap", [0.0, -1.0, math.nan, math.inf, 1e-9])
def test_a_cap_is_a_size(cap: float) -> None:
    with pytest.raises(SpecError, match="Bucket caps are sizes in MiB of at least a byte"):
        DDPSettings((25.0, cap))


def test_an_argument_of_zero_needs_zero_and_settings_of_old_strategies_have_neither() -> None:
    with pytest.raises(SpecError, match="is an argument of zero_redundancy_optimizer; set both"):
        DDPSettings(parameters_as_bucket_view=True)
    assert DDPSettings((1.0,)).to_json().keys() == {"bucket_cap_mb"}


def test_zero_takes_parameters_of_one_dtype() -> None:
    model = cases.mixed_precision_model()
    fault = next(iter(strategy_faults(DDP_BASELINES["ddp_zero"](model, HERE), model, HERE)))
    assert fault.startswith("ZeroRedundancyOptimizer takes parameters of one dtype, but the model has ")


def test_words_and_arguments_are_those_of_the_call() -> None:
    model, cluster = cases.mlp_model(), HERE
    for settings, words, arguments in (
        (DDPSettings(), "default settings", {}),
        (DDPSettings((25.0,), True), "bucket_cap_mb=25, gradient_as_bucket_view=True", {"bucket_cap_mb": 25.0}),
        (DDPSettings(zero_redundancy_optimizer=True), "default settings and ZeroRedundancyOptimizer()", {}),
        (
            DDPSettings((1.0,), False, False, True, True),
            "bucket_cap_mb=1 and ZeroRedundancyOptimizer(parameters_as_bucket_view=True)",
            {"bucket_cap_mb": 1.0},
        ),
        (DDPSettings((0.5, 2.0)), "bucket_cap_mb_list=[0.5, 2]", {"bucket_cap_mb_list": [0.5, 2.0]}),
    ):
        strategy = under_ddp(model, cluster, settings)
        assert arguments.items() <= settings.arguments.items()
        assert f"PyTorch's DistributedDataParallel itself synchronizes, with {words}." in strategy_in_words(
            strategy, model
        )
