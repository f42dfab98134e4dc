"""Every simulator that `--simulator` names guides a search; the simulator of *auto*, and its checkpoint."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosync.baselines import BASELINES, different_strategies
from autosync.cost import AnalyticSimulator, Blended, CascadeSimulator, Replay, ReplayCoefficients
from autosync.simulator import LearnedSimulator, TrainingSettings
from autosync.spec import Pace
from autosync.tune.composing import make_searcher
from autosync.tune.options import SIMULATORS, OptionsError
from autosync.tune.simulators import check_warm_start, leaves_room, make_simulator, simulator_in_words
from search_spaces import load_space
from tests import cases
from tests.cover import thorough
from tests.tune.pretend import CLUSTER, MODEL, options
from tests.tune.records import found, record

SHORT = TrainingSettings(members=2, steps=20)
PACED = replace(CLUSTER, nodes=tuple(replace(node, pace=Pace(0.0, 0.1)) for node in CLUSTER.nodes))

SLOW = ("rnn", "gat")
"""Networks with the same code path as `linear`."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a simulator with the network `rnn`, fitted to steps of about three seconds."""
    learned = LearnedSimulator(Replay(), "rnn", settings=SHORT)
    learned.fit([record(strategy, [3.0 + number / 100] * 9) for number, strategy in enumerate(found(12))])
    learned.save(folder := tmp_path_factory.mktemp("checkpoint"))
    return folder


@pytest.mark.parametrize("name", [thorough(name) if name in SLOW else name for name in SIMULATORS])
def test_a_search_guided_by_it_learns_and_says_what_it_expects(name: str) -> None:
    baselines = list(different_strategies(BASELINES, MODEL, CLUSTER).items())
    searcher = make_searcher(options(simulator=name), load_space("default").bind(MODEL, CLUSTER), baselines)
    rng, expected = random.Random(3), []
    for proposal in searcher.ask(len(baselines)):
        expected.append(proposal.predicted_seconds)
        searcher.tell(record(proposal.label, [rng.uniform(3.0, 3.3)] * 9))
    (proposed,) = searcher.ask(1)
    assert proposed.strategy.digest not in {strategy.digest for _, strategy in baselines}
    assert proposed.predicted_seconds == pytest.approx(3.1, rel=0.3)
    assert None not in expected
    assert max(filter(None, expected)) < 1.0, "before anything was measured it expected something else"


def test_auto_drafts_with_the_closed_form_and_verifies_with_what_is_learned() -> None:
    made = make_simulator(options(simulator="auto"), CLUSTER)
    assert isinstance(made, CascadeSimulator)
    assert isinstance(made.draft, AnalyticSimulator)
    assert isinstance(made.best, LearnedSimulator)
    assert isinstance(made.best.base, Blended)


@pytest.mark.parametrize("name", ["auto", "rnn"])
def test_a_checkpoint_is_where_it_starts_from(name: str, checkpoint: Path) -> None:
    made = make_simulator(options(simulator=name, warm_start=checkpoint), CLUSTER)
    learned = made.best if isinstance(made, CascadeSimulator) else made
    assert isinstance(learned, LearnedSimulator)
    assert learned.network == "rnn"
    strategies = found(15)
    expected = LearnedSimulator.load(checkpoint).predict(MODEL, CLUSTER, strategies)
    np.testing.assert_array_equal(made.predict(MODEL, CLUSTER, strategies), expected)


def test_auto_starts_from_the_checkpoint_that_comes_with_the_program_for_times_of_the_kind(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "real").symlink_to(checkpoint)
    monkeypatch.setattr("autosync.simulator.saved.PRETRAINED", str(tmp_path))
    made = make_simulator(options(simulator="auto"), CLUSTER)
    assert isinstance(made, CascadeSimulator)
    assert isinstance(made.best, LearnedSimulator)
    assert made.best.network == "rnn"
    assert isinstance(untrained := make_simulator(options(simulator="rnn"), CLUSTER), LearnedSimulator)
    assert untrained.predict(MODEL, CLUSTER, found(1)) < 0, "one that is named starts anew"


def test_auto_is_untaught_where_no_checkpoint_comes_for_times_of_the_kind(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "paced-recorded").symlink_to(checkpoint)
    monkeypatch.setattr("autosync.simulator.saved.PRETRAINED", str(tmp_path))
    counts = []
    for cluster in (PACED, CLUSTER):
        made = make_simulator(options(), cluster)
        assert isinstance(made, CascadeSimulator)
        assert isinstance(made.best, LearnedSimulator)
        counts.append(made.best.record_count)
    assert counts == [12, 0]
    assert list(simulator_in_words(options(), MODEL, CLUSTER, [])) == [
        "Candidates are ranked by the simulator 'auto', which starts untrained because no checkpoint was fitted to "
        "real times."
    ]


def test_a_checkpoint_that_is_named_and_was_fitted_to_times_of_another_kind_is_refused(checkpoint: Path) -> None:
    asked = options(warm_start=checkpoint)
    for refuse in (make_simulator, check_warm_start):
        with pytest.raises(OptionsError) as refusal:
            refuse(asked, PACED)
        assert str(refusal.value) == (
            f"--warm-start {checkpoint} was fitted to real times, but this cluster has paced-recorded times, and the "
            "two are never compared; leave the option out, or name a checkpoint made by "
            "`autosync pretrain --kind paced-recorded`."
        )
    nothing = LearnedSimulator(Replay(), "rnn", settings=SHORT)
    nothing.save(checkpoint.with_name("nothing"))
    check_warm_start(options(warm_start=checkpoint.with_name("nothing")), PACED)


def test_a_search_on_pytorch_starts_from_nothing_that_tensorflow_has_taught(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "real").symlink_to(checkpoint)
    monkeypatch.setattr("autosync.simulator.saved.PRETRAINED", str(tmp_path))
    asked = options(framework="pytorch")
    made = make_simulator(asked, CLUSTER)
    assert isinstance(made, CascadeSimulator)
    assert isinstance(made.best, LearnedSimulator)
    assert made.best.record_count == 0
    assert list(simulator_in_words(asked, MODEL, CLUSTER, [])) == [
        "Candidates are ranked by the simulator 'auto', which starts untrained because no checkpoint was fitted to "
        "pytorch-real times."
    ]
    for cluster in (None, CLUSTER):
        with pytest.raises(OptionsError) as refusal:
            check_warm_start(options(framework="pytorch", warm_start=checkpoint), cluster)
        assert str(refusal.value) == (
            f"--warm-start {checkpoint} was fitted to steps of tensorflow, but this search times steps of pytorch, and "
            "the two are never compared; leave the option out, or name a checkpoint made by "
            "`autosync pretrain --framework pytorch`."
        )


def test_a_search_on_pytorch_starts_from_a_checkpoint_of_pytorch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slow = ReplayCoefficients(step_overhead_seconds=0.5)
    monkeypatch.setattr("autosync.cost.blended.REPLAY_PRIORS", {None: ReplayCoefficients(), "pytorch": slow})
    steps = [record(strategy, [3.0 + number / 100] * 9) for number, strategy in enumerate(found(12))]
    learned = LearnedSimulator(Blended("pytorch"), "linear", settings=SHORT)
    learned.fit([replace(step, framework="pytorch") for step in steps])
    learned.save(tmp_path / "pytorch-real")
    assert learned.kinds == ("pytorch-real",)
    monkeypatch.setattr("autosync.simulator.saved.PRETRAINED", str(tmp_path))
    made = make_simulator(options(framework="pytorch"), CLUSTER)
    expected = learned.predict(MODEL, CLUSTER, found(15))
    np.testing.assert_array_equal(made.predict(MODEL, CLUSTER, found(15)), expected)
    assert "which starts from the checkpoint that comes with autosync" in "".join(
        simulator_in_words(options(framework="pytorch"), MODEL, CLUSTER, [])
    )
    with pytest.raises(OptionsError, match="was fitted to steps of pytorch, but this search times steps of tensorflow"):
        check_warm_start(options(framework="tensorflow", warm_start=tmp_path / "pytorch-real"), CLUSTER)


def test_a_checkpoint_of_another_network_is_refused_and_told_which_it_is(checkpoint: Path) -> None:
    with pytest.raises(OptionsError) as refusal:
        check_warm_start(options(simulator="gat", warm_start=checkpoint), None)
    assert str(refusal.value) == (
        f"--warm-start {checkpoint} holds a simulator 'rnn', not 'gat'; use --simulator rnn, or auto."
    )


def test_a_person_is_told_what_guides_the_search_and_what_that_learns_from(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("autosync.simulator.saved.PRETRAINED", str(tmp_path))
    earlier = [record(strategy, [1.0]) for strategy in found(4)]
    earlier[0] = replace(earlier[0], cluster=cases.rack_cluster())
    earlier[1] = replace(earlier[1], model=cases.ncf_like_model())
    assert list(simulator_in_words(options(), MODEL, CLUSTER, earlier)) == [
        "Candidates are ranked by the simulator 'auto', which starts untrained because no checkpoint was fitted to "
        "real times.",
        "The simulator also learns from 4 records of other runs: 2 of this model on this cluster, 1 of this model on "
        "other clusters, and 1 of other models on this cluster.",
    ]
    warm = options(simulator="rnn", warm_start=checkpoint)
    assert list(simulator_in_words(warm, MODEL, CLUSTER, [])) == [
        f"Candidates are ranked by the simulator 'rnn', which starts from the checkpoint {checkpoint}."
    ]
    monkeypatch.undo()
    assert list(simulator_in_words(options(), MODEL, CLUSTER, [])) == [
        "Candidates are ranked by the simulator 'auto', which starts from the checkpoint that comes with autosync."
    ]


def test_where_links_change_a_person_is_told_which_rates_predictions_are_by() -> None:
    assert list(simulator_in_words(options(simulator="replay"), MODEL, cases.changing(CLUSTER, (60.0, 0.1)), [])) == [
        "Candidates are ranked by the simulator 'replay'.",
        "Links change: predictions are for phase 0 of 0 to 1, by the first rates, whichever phase a trial is timed in.",
    ]


def test_a_fit_goes_on_beside_trials_where_it_cannot_make_them_longer() -> None:
    used = [node.address for node in CLUSTER.nodes]
    assert not leaves_room(CLUSTER, used, used[0])
    assert leaves_room(CLUSTER, used, "10.0.0.99")
    on_gpus = cases.gpu_cluster()
    assert leaves_room(on_gpus, [node.address for node in on_gpus.nodes], on_gpus.nodes[0].address)
