"""The declared spaces are constants, and hold the strategies that their models need."""

from __future__ import annotations

import ast
import importlib
import math
import random
from pathlib import Path

import pytest

import search_spaces
from autosync.baselines import BASELINES
from autosync.baselines.decisions import strategy_of, variables_in_ready_order
from autosync.baselines.reduced import assign_buckets, buckets_of
from autosync.space import Space
from autosync.spec import ClusterSpec, strategy_faults
from tests import cases
from tests.space.wide import factored_model

FILES = sorted(path for path in Path(search_spaces.__file__).parent.glob("*.py") if path.name != "__init__.py")
NAMES = [path.stem for path in FILES]
INERT = (ast.Expr, ast.ImportFrom, ast.Assign)


def load(name: str) -> Space:
    space = importlib.import_module(f"search_spaces.{name}").SPACE
    assert isinstance(space, Space)
    return space


def test_the_six_spaces_are_there():
    assert {"bert", "cnn", "default", "lossy", "ncf", "tiny"} <= set(NAMES)


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_a_space_file_is_a_docstring_imports_and_one_constant(path: Path):
    tree = ast.parse(path.read_text())
    assert all(isinstance(statement, INERT) for statement in tree.body)
    targets = [statement.targets for statement in tree.body if isinstance(statement, ast.Assign)]
    assert [[ast.unparse(target) for target in names] for names in targets] == [["SPACE"]]
    modules = [statement.module for statement in tree.body if isinstance(statement, ast.ImportFrom)]
    assert modules == ["autosync.space"]
    moving = (ast.Lambda, ast.IfExp, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp, ast.BinOp, ast.BoolOp)
    assert not any(isinstance(node, moving) for node in ast.walk(tree))


@pytest.mark.parametrize("name", NAMES)
def test_a_space_says_what_it_is(name: str):
    assert load(name).name == name
    assert load(name).description


@pytest.mark.parametrize("name", NAMES)
def test_a_space_binds_to_every_model_and_cluster(name: str):
    for model in (cases.bert_like_model(), cases.ncf_like_model(), cases.prime_model(), cases.scalar_model()):
        for cluster in (cases.local_cluster(1), cases.local_cluster(), cases.star_cluster(), cases.gpu_cluster()):
            assert math.isfinite(load(name).bind(model, cluster).log10_size)


@pytest.mark.parametrize("name", ["default", "bert", "cnn", "ncf", "lossy"])
def test_on_gpus_every_bucket_may_go_by_the_frameworks_own_collective(name: str):
    cluster = cases.gpu_cluster()
    for model in (cases.bert_like_model(), cases.ncf_like_model(), cases.prime_model(), cases.scalar_model()):
        space = load(name).bind(model, cluster)
        for domain in space.domains.each:
            for shard in domain.reductions:
                if not shard.gathers and not domain.variable.sparse and not shard.is_scaled:
                    assert "collective" in domain.algorithms(shard.compressor), domain.variable.name
        buckets = assign_buckets(variables_in_ready_order(model), buckets_of(4_000_000), algorithm="collective")
        strategy = strategy_of(model, cluster, buckets)
        assert strategy.has_collectives
        assert space.why_not(strategy) is None


@pytest.mark.parametrize("name", NAMES)
def test_strategies_drawn_on_gpus_use_the_collective_and_have_no_fault(name: str):
    model, cluster = cases.bert_like_model(), cases.gpu_cluster()
    space, rng = load(name).bind(model, cluster), random.Random(53)
    drawn = [space.sample(rng) for _ in range(60)]
    assert [fault for strategy in drawn for fault in strategy_faults(strategy, model, cluster)] == []
    assert any(strategy.has_collectives for strategy in drawn) == (name != "tiny")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "cluster", [cases.local_cluster(4), cases.star_cluster(4), cases.racks(2, 2)], ids=["workers", "star", "racks"]
)
def test_algorithms_for_gpus_change_nothing_on_cpus(name: str, cluster: ClusterSpec):
    model = cases.ncf_like_model()
    space, earlier = load(name).bind(model, cluster), load(name).without_gpu_algorithms().bind(model, cluster)
    assert [domain.reductions for domain in space.domains.each] == [
        domain.reductions for domain in earlier.domains.each
    ]
    draws = [[bound.sample(random.Random(seed)).digest for seed in range(20)] for bound in (space, earlier)]
    assert draws[0] == draws[1]


@pytest.mark.parametrize(
    "model",
    [
        cases.bert_like_model(),
        cases.ncf_like_model(),
        cases.prime_model(),
        factored_model(),
        cases.scalar_model(),
        cases.mixed_precision_model(),
    ],
    ids=lambda model: model.name,
)
def test_every_baseline_on_four_workers_lies_in_the_default_space(model):
    for cluster in (cases.local_cluster(4), cases.star_cluster(4), cases.gpu_cluster()):
        space = load("default").bind(model, cluster)
        assert {name: space.why_not(baseline(model, cluster)) for name, baseline in BASELINES.items()} == dict.fromkeys(
            BASELINES
        )
