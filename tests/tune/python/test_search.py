"""`autosync.Search`: ask and tell for callers that time strategies themselves, and under their own Ray Tune."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from pyarrow import fs
from ray import tune

from autosync import AutoSyncSearcher, Search, Strategy
from autosync.cost import AnalyticSimulator
from autosync.errors import AutosyncError, ClusterError, SpecError, TrialError
from autosync.tune.options import OptionsError
from tests.cases import mlp_model, star_cluster
from trials.workers.local_ray import RayStart, start_ray

MODEL, CLUSTER, TRIALS = mlp_model(), star_cluster(2), 24


def search(trials: int = TRIALS, seed: int = 0) -> Search:
    return Search(MODEL, CLUSTER, trials=trials, framework="pytorch", simulator="analytic", seed=seed)


def seconds_of(strategy: Strategy) -> float:
    """Made-up seconds of a step, which any process computes alike."""
    predicted = AnalyticSimulator().predict(MODEL, CLUSTER, [strategy])
    return math.exp(float(predicted[0])) * (1.0 + 0.05 * (int(strategy.digest[:4], 16) % 7))


def ask_to_the_end(search: Search) -> list[str]:
    """Ask and tell to the end; the digests of the proposals."""
    digests = []
    while (proposal := search.ask()) is not None:
        search.tell(proposal, seconds=seconds_of(proposal.strategy))
        digests.append(proposal.strategy.digest)
    return digests


def test_a_loop_of_ask_and_tell_ends_with_the_fastest_strategy() -> None:
    looped = search()
    digests = ask_to_the_end(looped)
    assert len(digests) == len(set(digests)) == TRIALS
    assert ask_to_the_end(search()) == digests
    fastest = min(looped.records, key=lambda record: record.median_seconds or math.inf)
    assert looped.best == fastest.strategy
    assert {record.purpose for record in looped.records} == {"baseline", "search"}


def test_a_restored_search_continues_as_if_never_stopped() -> None:
    whole, first = search(), search(10)
    digests = ask_to_the_end(whole)
    begun = ask_to_the_end(first)
    again = search()
    again.restore(json.loads(json.dumps(first.state())))
    assert again.records == first.records
    assert len({*begun, *ask_to_the_end(again)}) == TRIALS
    with pytest.raises(SpecError, match="The state of a Search needs the field 'records'"):
        again.restore({})
    assert digests[0] == begun[0]


def test_proposals_wait_for_answers_and_failures_are_answers() -> None:
    waiting = search(6)
    out = []
    while (proposal := waiting.ask()) is not None:
        out.append(proposal)
    assert waiting.pending == out
    for proposal in out:
        assert waiting.tell(proposal, failure="The port was taken.").outcome == "failed"
    with pytest.raises(TrialError, match="No strategy was timed yet"):
        _ = waiting.best
    ask_to_the_end(waiting)
    assert [record.outcome for record in waiting.records].count("failed") == len(out)
    assert len(waiting.records) == 6


@pytest.mark.parametrize(
    ("answer", "error", "sentence"),
    [
        ({}, OptionsError, "tell needs either seconds or a failure"),
        ({"seconds": 0.1, "failure": "broken"}, OptionsError, "tell needs either seconds or a failure"),
        ({"seconds": -0.1}, SpecError, "Step seconds are positive and finite"),
        ({"seconds": []}, SpecError, "A record that is ok holds its step seconds"),
    ],
)
def test_a_wrong_answer_is_refused(answer: dict[str, Any], error: type[AutosyncError], sentence: str) -> None:
    asking = search()
    proposal = asking.ask()
    assert proposal is not None
    with pytest.raises(error, match=sentence):
        asking.tell(proposal, **answer)
    assert asking.pending == [proposal]


def build() -> Any:
    import torch
    from torch import nn

    module = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 3))
    batch = torch.randn(8, 16), torch.randint(3, (8,))
    return module, nn.functional.cross_entropy, batch, torch.optim.SGD(module.parameters(), lr=0.1)


def test_a_function_is_captured_and_its_variables_are_decided() -> None:
    captured = Search(build, workers=2, trials=3, simulator="analytic")
    proposal = captured.ask()
    assert proposal is not None
    assert [decision.variable for decision in proposal.strategy.variables] == [
        *("0.weight", "0.bias", "2.weight", "2.bias")
    ]
    assert captured.tell(proposal, seconds=[0.1, 0.2, 0.3]).framework == "pytorch"
    with pytest.raises(OptionsError, match="--workers and --cluster exclude each other"):
        Search(MODEL, CLUSTER, workers=2)


@pytest.fixture(scope="module")
def small_ray() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def trainable_of(step: Callable[[Strategy], float], broken: str) -> Callable[[dict[str, Any]], None]:
    """A user's trainable, which fails for the baseline called `broken`."""

    def trainable(config: dict[str, Any]) -> None:
        strategy = Strategy.from_json(config["strategy"])
        if config["label"] == broken:
            raise RuntimeError("this one is broken")
        tune.report({"step_seconds": step(strategy)})

    return trainable


@pytest.mark.usefixtures("small_ray")
def test_a_joined_ray_is_used_as_it_is() -> None:
    assert start_ray(RayStart(workers=2)).startswith("Uses the Ray cluster that this program has joined at ")
    with pytest.raises(ClusterError, match=r"This program has called ray.init, which decides .*; leave --address out"):
        start_ray(RayStart(address="10.0.0.1:6379"))


@pytest.mark.thorough  # the example of docs/python.md runs in `make test`
@pytest.mark.usefixtures("small_ray")
def test_the_searcher_works_in_a_users_own_tuner_whose_results_are_in_any_file_system(tmp_path: Path) -> None:
    first = search().ask()
    assert first is not None
    storage = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    tuner = tune.Tuner(
        trainable_of(seconds_of, broken=first.label),
        tune_config=tune.TuneConfig(search_alg=AutoSyncSearcher(search(4)), num_samples=-1, reuse_actors=True),
        run_config=tune.RunConfig(name="mine", storage_path="results", storage_filesystem=storage, verbose=0),
    )
    results = tuner.fit()
    assert (len(results), len(results.errors)) == (4, 1)
    timed = [result.metrics["step_seconds"] for result in results if not result.error]
    best = results.get_best_result("step_seconds", "min")
    assert best.metrics["step_seconds"] == min(timed)
    assert seconds_of(Strategy.from_json(best.config["strategy"])) == pytest.approx(min(timed))
    assert (tmp_path / "results/mine/tuner.pkl").exists()
    trainable = trainable_of(seconds_of, broken="none")
    restored = tune.Tuner.restore("results/mine", trainable, restart_errored=True, storage_filesystem=storage)
    again = restored.fit()
    assert (len(again), len(again.errors)) == (4, 0)
