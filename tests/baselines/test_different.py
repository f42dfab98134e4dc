"""The baselines that are different strategies here."""

from __future__ import annotations

from dataclasses import replace

from autosync.baselines import BASELINES, different_strategies
from tests import cases


def test_of_baselines_that_make_the_same_decisions_the_first_is_kept_and_all_in_their_order():
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
