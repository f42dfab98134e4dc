"""Every simulator that `--simulator` names guides a search; which one *auto* is, and from where it starts."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosync.baselines import BASELINES, different_strategies
from autosync.cost import AnalyticSimulator, Blended, Drafted, Replay
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
"""Networks that are made and called like `linear`."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a simulator with the network `rnn`, which knows that steps take about three seconds."""
    learned = LearnedSimulator(Replay(), "rnn", settings=SHORT)
    learned.fit([record(strategy, [3.0 + number / 100] * 9) for number, strategy in enumerate(found(12))])
    learned.save(folder := tmp_path_factory.mktemp("checkpoint"))
    return folder


@pytest.mark.parametrize("name", [thorough(each) if each in SLOW else each for each in SIMULATORS])
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
    assert isinstance(made, Drafted)
    assert isinstance(made.draft, AnalyticSimulator)
    assert isinstance(made.best, LearnedSimulator)
    assert isinstance(made.best.base, Blended)


@pytest.mark.parametrize("name", ["auto", "rnn"])
def test_a_checkpoint_is_where_it_starts_from(name: str, checkpoint: Path) -> None:
    made = make_simulator(options(simulator=name, warm_start=checkpoint), CLUSTER)
    learned = made.best if isinstance(made, Drafted) else made
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
    assert isinstance(made, Drafted)
    assert isinstance(made.best, LearnedSimulator)
    assert made.best.network == "rnn"
    assert isinstance(other := make_simulator(options(simulator="rnn"), CLUSTER), LearnedSimulator)
    assert other.predict(MODEL, CLUSTER, found(1)) < 0, "one that is named starts anew"


def test_auto_is_untaught_where_no_checkpoint_comes_for_times_of_the_kind(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "paced-recorded").symlink_to(checkpoint)
    monkeypatch.setattr("autosync.simulator.saved.PRETRAINED", str(tmp_path))
    counts = []
    for cluster in (PACED, CLUSTER):
        made = make_simulator(options(), cluster)
        assert isinstance(made, Drafted)
        assert isinstance(made.best, LearnedSimulator)
        counts.append(made.best.record_count)
    assert counts == [12, 0]
    assert list(simulator_in_words(options(), MODEL, CLUSTER, [])) == [
        "Simulator auto, untaught: no checkpoint was fitted to real times."
    ]


def test_a_checkpoint_that_is_named_and_was_fitted_to_times_of_another_kind_is_refused(checkpoint: Path) -> None:
    asked = options(warm_start=checkpoint)
    for refuse in (make_simulator, check_warm_start):
        with pytest.raises(OptionsError) as refusal:
            refuse(asked, PACED)
        assert str(refusal.value) == (
            f"--warm-start {checkpoint} was fitted to real times, but those of this cluster are paced-recorded, and "
            "the two are never compared; leave it out, or name one of `autosync pretrain --kind paced-recorded`."
        )
    nothing = LearnedSimulator(Replay(), "rnn", settings=SHORT)
    nothing.save(checkpoint.with_name("nothing"))
    check_warm_start(options(warm_start=checkpoint.with_name("nothing")), PACED)


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
    earlier = [record(each, [1.0]) for each in found(4)]
    earlier[0] = replace(earlier[0], cluster=cases.rack_cluster())
    earlier[1] = replace(earlier[1], model=cases.ncf_like_model())
    assert list(simulator_in_words(options(), MODEL, CLUSTER, earlier)) == [
        "Simulator auto, untaught: no checkpoint was fitted to real times.",
        "It also learns from 4 records of other runs: 2 of this model on this cluster, 1 of this model elsewhere, "
        "1 of other models here.",
    ]
    warm = options(simulator="rnn", warm_start=checkpoint)
    assert list(simulator_in_words(warm, MODEL, CLUSTER, [])) == [f"Simulator rnn, from the checkpoint {checkpoint}."]
    monkeypatch.undo()
    assert list(simulator_in_words(options(), MODEL, CLUSTER, [])) == [
        "Simulator auto, from the checkpoint that comes with the program."
    ]


def test_where_links_change_a_person_is_told_which_rates_predictions_are_by() -> None:
    assert list(simulator_in_words(options(simulator="replay"), MODEL, cases.changing(CLUSTER, (60.0, 0.1)), [])) == [
        "Simulator replay.",
        "Links change: predictions are for phase 0 of 0 to 1, by the first rates, whichever phase a trial is timed in.",
    ]


def test_a_fit_goes_on_beside_trials_where_it_cannot_make_them_longer() -> None:
    used = [node.address for node in CLUSTER.nodes]
    assert not leaves_room(CLUSTER, used, used[0])
    assert leaves_room(CLUSTER, used, "10.0.0.99")
    on_gpus = cases.gpu_cluster()
    assert leaves_room(on_gpus, [node.address for node in on_gpus.nodes], on_gpus.nodes[0].address)
