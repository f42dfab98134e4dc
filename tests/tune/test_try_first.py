"""Strategies that a search is given to try first: they are timed first, fit the cluster, and reach the finals."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from autosync.baselines import BASELINES
from autosync.search.protocol import GIVEN
from autosync.search.registry import SEARCHERS
from autosync.spec import Strategy, Synchronizer
from autosync.tune.composing import fit_to_space, make_searcher
from autosync.tune.finalists import CANDIDATES, finalists
from autosync.tune.options import OptionsError
from search_spaces import load_space
from tests.cases import ncf_like_model, star_cluster
from tests.tune.pretend import CLUSTER, MODEL, PretendBackend, options, pretended_job, printed
from tests.tune.pretend import searcher as searcher_called
from tests.tune.records import baseline, found, record

SPACE = load_space("default").bind(MODEL, CLUSTER)


def sampled(seed: int) -> Strategy:
    return SPACE.sample(random.Random(seed))


@pytest.mark.parametrize("name", SEARCHERS)
def test_every_searcher_proposes_what_it_was_given_before_all_else(name: str) -> None:
    strategies = [sampled(1), baseline("parameter_server"), sampled(1), sampled(2)]
    baselines = [(name, baseline(name)) for name in ("parameter_server", "all_reduce_25mb")]
    searcher = make_searcher(options(searcher=name, simulator="analytic"), SPACE, baselines)
    searcher.try_first(strategies)
    proposals = [searcher.ask(1)[0] for _ in range(4)]
    assert [(proposal.strategy, proposal.label, proposal.purpose) for proposal in proposals[:3]] == [
        (strategies[0], GIVEN, "search"),
        (strategies[1], "parameter_server", "baseline"),
        (strategies[3], GIVEN, "search"),
    ]
    assert proposals[3].purpose == "baseline", "then the search goes on as it would have"


@pytest.mark.parametrize("name", ["guided", "random"])
def test_a_restored_search_goes_on_with_what_is_left_of_them(name: str) -> None:
    first, second = searcher_called(name), searcher_called(name)
    for search in (first, second):
        search.try_first([sampled(1), sampled(2)])
    (proposal,) = first.ask(1)
    first.tell(record(proposal.strategy, [1.0] * 9))
    second.restore(json.loads(json.dumps(first.state())))
    assert [proposal.strategy for proposal in second.ask(1)] == [sampled(2)]


def test_a_strategy_that_fits_is_tried_as_it_is(tmp_path: Path) -> None:
    job = pretended_job(tmp_path, PretendBackend())
    file = _written(tmp_path, sampled(3))
    assert fit_to_space(job, SPACE, file) == sampled(3)
    assert printed(job).strip() == f"{file} is timed first."


def test_a_strategy_of_a_smaller_cluster_keeps_what_it_can(tmp_path: Path) -> None:
    larger = load_space("default").bind(MODEL, star_cluster(3))
    job = pretended_job(tmp_path, PretendBackend())
    moved = fit_to_space(job, larger, _written(tmp_path, baseline("all_reduce_25mb")))
    assert set(moved.replicas) == set(larger.replicas)
    assert moved == larger.canonical(BASELINES["all_reduce_25mb"](MODEL, star_cluster(3)))
    assert "3 replicas, and other decisions on 0 of 6 variables" in printed(job)


def test_a_strategy_that_the_engine_refuses_is_adapted(tmp_path: Path) -> None:
    served = BASELINES["parameter_server"](SPACE.model, SPACE.cluster)
    stale: dict[Synchronizer, Synchronizer] = {
        server: replace(server, staleness=1, local_copy=False) for server in served.variables[0].servers
    }
    refused = replace(served, variables=tuple(choice.replace_synchronizers(stale) for choice in served.variables))
    job = pretended_job(tmp_path, PretendBackend(), framework="pytorch")
    assert not fit_to_space(job, SPACE, _written(tmp_path, refused)).staleness
    assert "is timed first, adapted to this cluster" in printed(job)


def test_an_overlap_that_the_space_lacks_is_kept_if_the_engine_carries_it_out(tmp_path: Path) -> None:
    overlapped = replace(sampled(3), overlap_next_forward=True)
    job = pretended_job(tmp_path, PretendBackend())
    assert fit_to_space(job, SPACE, _written(tmp_path, overlapped)) == overlapped


def test_a_strategy_of_another_model_is_refused(tmp_path: Path) -> None:
    foreign = BASELINES["all_reduce_25mb"](ncf_like_model(), CLUSTER)
    with pytest.raises(OptionsError, match=r"--try-first needs a strategy for mlp, but .* none of its variables"):
        fit_to_space(pretended_job(tmp_path, PretendBackend()), SPACE, _written(tmp_path, foreign))


def test_what_was_given_is_measured_again_however_slow() -> None:
    *faster, slow, stopped = found(CANDIDATES + 3)
    fast = [record(strategy, [float(number)] * 9) for number, strategy in enumerate(faster, 1)]
    given_record = replace(record(slow, [9.0] * 9), label=GIVEN)
    too_slow = replace(record(stopped, [9.5] * 9, outcome="stopped"), label=GIVEN)
    best = record("all_reduce_25mb", [5.0] * 9)
    assert finalists([given_record, too_slow, best, *fast]) == [*fast[:CANDIDATES], best, given_record]


def _written(folder: Path, strategy: Strategy) -> Path:
    file = folder / "given.json"
    file.write_text(json.dumps(strategy.to_json()))
    return file
