"""The refusals of options, and their words."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from autosync.tune.options import OptionsError, TuneOptions, flag

REFUSED = {
    "trials": (0, "--trials must be greater than or equal to 1, not 0."),
    "time_budget_seconds": (-5.0, "--time-budget must be greater than 0, not -5.0."),
    "workers": (0, "--workers must be greater than or equal to 1, not 0."),
    "searcher": (
        "nosuch",
        "--searcher must be one of guided, evolution, random, original, tpe, tpe-knobs, gp, gp-knobs, not 'nosuch'.",
    ),
    "simulator": (
        "nosuch",
        "--simulator must be one of auto, analytic, replay, linear, rnn, gat, not 'nosuch'.",
    ),
    "round_size": (0, "--round-size must be greater than or equal to 1, not 0."),
    "seed": (-1, "--seed must be greater than or equal to 0, not -1."),
    "warmup_steps": (-1, "--warmup must be greater than or equal to 0, not -1."),
    "timed_steps": (0, "--steps must be greater than or equal to 1, not 0."),
    "trial_time_limit_seconds": (0.0, "--trial-time-limit must be greater than 0, not 0.0."),
    "capture_time_limit_seconds": (0.0, "--capture-time-limit must be greater than 0, not 0.0."),
    "stop_factor": (1.0, "--stop-factor must be greater than 1, not 1.0."),
    "patience": (0, "--patience must be greater than or equal to 1, not 0."),
    "training_steps": (0, "--training-steps must be greater than or equal to 1, not 0."),
    "rounds": (0, "--rounds must be greater than or equal to 1, not 0."),
    "model": ("", "--model must have at least 1 character, not ''."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_option_out_of_range_is_refused_in_one_sentence_with_the_rule_and_what_came(name: str) -> None:
    value, sentence = REFUSED[name]
    with pytest.raises(OptionsError) as refusal:
        TuneOptions.create(**({"model": "mlp", "out": Path("run")} | {name: value}))
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    "name", ["time_budget_seconds", "trial_time_limit_seconds", "stop_factor", "node_wait_seconds"]
)
def test_what_is_measured_in_seconds_or_times_must_be_finite(name: str) -> None:
    for endless in (math.inf, math.nan):
        with pytest.raises(OptionsError) as refusal:
            TuneOptions.create(model="mlp", out=Path("run"), **{name: endless})
        assert str(refusal.value) == f"{flag(name)} must be a finite number, not {endless!r}."


def test_a_seed_that_a_record_cannot_hold_is_refused() -> None:
    with pytest.raises(OptionsError, match="--seed must be less than or equal to 9223372036854775807"):
        TuneOptions.create(model="mlp", out=Path("run"), seed=2**63)


def test_an_option_that_does_not_exist_is_refused_by_its_name() -> None:
    with pytest.raises(OptionsError, match="--colour extra inputs are not permitted, not 'red'"):
        TuneOptions.create(model="mlp", out=Path("run"), colour="red")


def test_the_defaults_are_those_of_a_plain_search() -> None:
    options = TuneOptions.create(model="mlp", out=Path("run"))
    assert (options.trials, options.warmup_steps, options.timed_steps) == (200, 10, 40)
    assert (options.searcher, options.simulator, options.warm_start) == ("guided", "auto", None)
    assert not options.resume


def test_the_identity_holds_what_a_resumed_search_must_share_and_not_its_length() -> None:
    short = TuneOptions.create(model="mlp", out=Path("a"), trials=5, rounds=1)
    long = TuneOptions.create(model="mlp", out=Path("b"), trials=50, rounds=9, resume=True)
    assert short.identity() == long.identity()
    assert short.identity() != TuneOptions.create(model="mlp", out=Path("a"), timed_steps=5).identity()
    less = TuneOptions.create(model="mlp", out=Path("a"), without_rules=("bucket_order",))
    assert less.identity() != short.identity()
    warm = TuneOptions.create(model="mlp", out=Path("a"), warm_start=Path("checkpoint"))
    assert warm.identity() == short.identity() | {"warm_start": str(Path("checkpoint").resolve())}


def test_a_round_size_is_for_a_search_that_has_rounds() -> None:
    with pytest.raises(OptionsError) as refusal:
        TuneOptions.create(model="mlp", out=Path("run"), searcher="random", round_size=8)
    assert str(refusal.value) == "--round-size is for guided search, but --searcher random has no rounds; leave it out."


@pytest.mark.parametrize(
    ("values", "by"),
    [({"simulator": "replay"}, "--simulator replay"), ({"searcher": "random"}, "--searcher random")],
)
def test_a_checkpoint_for_a_simulator_that_does_not_learn_is_refused(values: dict[str, str], by: str) -> None:
    with pytest.raises(OptionsError) as refusal:
        TuneOptions.create(model="mlp", out=Path("run"), warm_start=Path("checkpoint"), **values)
    expected = f"--warm-start needs a simulator that learns, but {by} has none; leave one of them out."
    assert str(refusal.value) == expected
