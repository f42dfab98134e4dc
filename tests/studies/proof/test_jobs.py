"""A job from its first trial to its finals, on a back end that predicts step times."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from autosync.baselines import DDP_BASELINES
from autosync.cost import Blended
from autosync.engine.core.versions import VERSIONS
from autosync.errors import NodesLostError, TrialError
from autosync.spec import RuntimeRecord, Strategy, TimingProtocol
from autosync.stats.cells import CellName
from studies.bench.contenders import untaught
from studies.collect.folder import Folder
from studies.proof import visit
from studies.proof.by_hand import all_reduce_by_hand, ddp_by_hand
from studies.proof.cells import DEFAULT, ProofJob
from studies.proof.methods import METHODS, ORDER
from studies.proof.page import write_page
from studies.proof.results import ProofResults
from studies.proof.timing import MOST_LOSSES, JobTimer
from studies.proof.visit import ProofVisit, run_job
from tests.cases import mlp_model, rack_cluster, star_cluster
from tests.studies.proof import predicted
from tests.studies.proof.predicted import PredictedBackend
from trials.trial import TrialRequest

JOB = ProofJob(CellName("mlp", "racks"), 0)
TRIALS, ROUNDS = 8, 3
QUICK = (*ORDER[:3], "evolution", "random")
"""Methods without a simulator."""


def a_backend() -> PredictedBackend:
    return PredictedBackend(mlp_model((8, 16, 4)), rack_cluster())


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoints") / "untaught"
    untaught(Blended("pytorch"), members=1).save(path)
    return path


class StopsAfter:
    """A back end that is interrupted in its trial number `count`."""

    def __init__(self, count: int) -> None:
        self._backend, self._left = a_backend(), count
        self.model, self.cluster = self._backend.model, self._backend.cluster

    def run(self, request: TrialRequest) -> RuntimeRecord:
        self._left -= 1
        if not self._left:
            raise KeyboardInterrupt
        return self._backend.run(request)


def run(out: Path, checkpoint: Path, backend: Any) -> ProofResults:
    results = ProofResults.create(out)
    request = ProofVisit(str(out), str(out), "racks", (), 1e9, TRIALS, ROUNDS)
    run_job(JOB, request, str(checkpoint), results, backend, Folder(out / "measured"), math.inf)
    return results


def without_clock(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in row if name not in ("thinking_seconds", "finished_at")} for row in rows]


@pytest.mark.thorough  # simulators are fitted
def test_each_method_has_as_many_trials_and_no_strategy_is_timed_twice_before_the_finals(
    tmp_path: Path, checkpoint: Path
) -> None:
    backend = a_backend()
    results = run(tmp_path, checkpoint, backend)
    rows = {row["method"]: row for row in results.methods.read()}
    assert set(rows) == set(ORDER)
    assert {len(rows[method]["strategies"]) for method in METHODS} == {TRIALS}
    assert all(len(set(row["strategies"])) == len(row["strategies"]) for row in rows.values())
    assert all(rows[method]["labels"][0] == DEFAULT for method in METHODS if method != "all-reduce by hand")
    assert any(rows["guided"]["predicted_seconds"])
    trials = Counter(request.strategy.digest for request in backend.requests[1:] if request.purpose != "remeasure")
    assert set(trials.values()) == {1}
    assert set(trials) == {name for row in rows.values() for name in row["strategies"]}
    assert backend.requests[0].label == DEFAULT, "the first trial is a rehearsal"
    records = results.records.read(run=JOB.run)
    assert len(records) == len(backend.requests) - 1

    finals = results.finals.read()
    assert results.is_done(JOB)
    assert {role for row in finals for role in row["roles"]} == {*METHODS, "baseline", "default"}
    assert {len(row["seconds"]) for row in finals} == {ROUNDS}
    assert all(0 < row["bound_seconds"] <= row["bound_with_barrier_seconds"] for row in finals)
    best = {row["method"]: min(value for value in row["measured_seconds"] if value) for row in rows.values()}
    for row in finals:
        for method in set(row["roles"]) & set(METHODS):
            assert row["seconds"][0] == pytest.approx(best[method])


def test_an_interrupted_job_ends_with_the_same_results_and_times_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visit, "ORDER", QUICK)
    nowhere = Path("no-checkpoint")
    whole = run(tmp_path / "whole", nowhere, a_backend())
    for count in (4, 20, 9):
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "parts", nowhere, StopsAfter(count))
    parts = run(tmp_path / "parts", nowhere, a_backend())
    assert without_clock(parts.methods.read()) == without_clock(whole.methods.read())
    assert without_clock(parts.finals.read()) == without_clock(whole.finals.read())
    for results in (parts, whole):  # interrupted finals begin again, because they are timed in one run
        trials = [record.strategy.digest for record in results.records.read() if record.purpose != "remeasure"]
        assert len(trials) == len(set(trials))
    parts.merge()
    assert ProofResults.create(tmp_path / "parts").is_done(JOB)
    page = write_page(tmp_path / "parts")  # a cell that is none of the proof's is left out of its tables
    assert "1 jobs (a cell with a seed) in 0 of 40 cells." in page.read_text(encoding="utf-8")


def test_under_a_new_version_of_the_engine_the_finals_are_held_again_and_no_trial_is_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visit, "ORDER", QUICK)
    results = run(tmp_path, Path("no-checkpoint"), a_backend())
    methods, finals = results.methods.read(), results.finals.read()
    assert results.is_done(JOB)
    version = VERSIONS["pytorch"] + 1
    for module in ("studies.proof.results", "studies.proof.timing", "studies.proof.finals", predicted.__name__):
        monkeypatch.setattr(f"{module}.VERSIONS", {"pytorch": version})
    assert not results.is_done(JOB)

    backend = a_backend()
    timer = JobTimer(backend, backend.model, ProofResults.create(tmp_path / "other").records, math.inf)
    record, *_ = kept = results.records.read()
    timer.take_up(kept)
    assert timer.once(TrialRequest(record.strategy)).engine == version

    run(tmp_path, Path("no-checkpoint"), a_backend())
    assert results.is_done(JOB)
    assert results.methods.read() == methods
    assert len(results.finals.read()) == len(finals)
    assert {row["engine"] for row in results.finals.read()} == {str(version)}


def test_a_trial_that_is_lost_again_and_again_ends_the_visit_and_its_records_are_kept(tmp_path: Path) -> None:
    backend = PredictedBackend()
    ddp = DDP_BASELINES[DEFAULT](backend.model, backend.cluster)
    backend.lost = {ddp.digest}
    results = ProofResults.create(tmp_path)
    timer = JobTimer(backend, backend.model, results.records, math.inf)
    with pytest.raises(NodesLostError, match="A trial was lost 3 times in a row"):
        timer.once(TrialRequest(ddp, TimingProtocol(), run=JOB.run))
    assert [record.outcome for record in results.records.read()] == ["lost"] * MOST_LOSSES


def test_records_of_another_model_are_refused(tmp_path: Path) -> None:
    backend = PredictedBackend()
    record = PredictedBackend(model=mlp_model((8, 8))).run(
        TrialRequest(DDP_BASELINES[DEFAULT](mlp_model((8, 8)), backend.cluster), run=JOB.run)
    )
    timer = JobTimer(backend, backend.model, ProofResults.create(tmp_path).records, math.inf)
    with pytest.raises(TrialError, match="need the same model"):
        timer.take_up([record])


def test_ddp_by_hand_begins_with_its_default_and_tries_no_settings_twice() -> None:
    tried = ddp_by_hand(mlp_model(), star_cluster(4))
    assert next(iter(tried)) == DEFAULT
    assert len({strategy.digest for strategy in tried.values()}) == len(tried) > 20
    assert all(strategy.ddp is not None for strategy in tried.values())


def test_an_all_reduce_by_hand_tries_the_fastest_pairs_with_a_barrier_too() -> None:
    model, cluster = mlp_model(), rack_cluster()
    backend, tried = PredictedBackend(model, cluster), dict[str, Strategy]()

    def time(label: str, strategy: Strategy) -> RuntimeRecord:
        tried[label] = strategy
        return backend.run(TrialRequest(strategy, label=label))

    records = list(all_reduce_by_hand(model, cluster, time, 30))
    assert len(records) == len(tried) == 30
    free = [record for record in records if record.strategy.overlap_next_forward]
    barrier = [record for record in records if not record.strategy.overlap_next_forward]
    fastest = sorted(free, key=lambda record: record.median_seconds or math.inf)[: len(barrier)]
    assert {record.label.removesuffix(", overlapped") for record in fastest} == {record.label for record in barrier}
