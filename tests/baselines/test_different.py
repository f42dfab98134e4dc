"""Baselines that give the same strategy on a model and cluster appear once."""

from __future__ import annotations

from dataclasses import replace

from autosync.baselines import BASELINES, different_strategies
from tests import cases


def test_only_the_first_of_equal_baselines_is_kept_in_order():
    model, cluster = cases.mlp_model(), cases.star_cluster()
    kept = different_strategies(BASELINES, model, cluster)
    assert list(kept) == [name for name in BASELINES if name in kept]
    assert len({strategy.digest for strategy in kept.values()}) == len(kept)
    first: dict[str, str] = {}
    for name, baseline in BASELINES.items():
        first.setdefault(baseline(model, cluster).digest, name)
    assert set(kept) == set(first.values()) != set(BASELINES)


def test_a_baseline_that_does_not_fit_is_left_out():
    model, cluster = cases.mlp_model(), cases.star_cluster()

    def misfit(*_):
        strategy = BASELINES["byteps"](model, cluster)
        return replace(strategy, variables=strategy.variables[1:])

    assert list(different_strategies({"misfit": misfit, "byteps": BASELINES["byteps"]}, model, cluster)) == ["byteps"]
