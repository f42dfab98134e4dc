"""The session contract: strategies begin from the same values, report their losses, resume, or are refused by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from autosync.baselines import BASELINES
from autosync.engine.core.contract import Session
from autosync.engine.core.registry import DEFAULT, engine_named
from autosync.errors import SpecError
from autosync.spec import (
    AllReduce,
    Cast,
    Discipline,
    ParameterServer,
    Rhythm,
    Strategy,
    Synchronizer,
    TimingProtocol,
)
from tests.cases import star_cluster
from tests.contracts.tables import ENGINES_TABLE
from tests.engine.contracts.subject import Case, Subject, session_on
from trials.clock import Environment, WallClock
from trials.trial import TrialRequest, TrialSetup, run_trial

CLUSTER = star_cluster(nodes=3)
DENSE = Case("dense", "adam")


def session_of(subject: Subject, case: Case = DENSE) -> Session:
    return session_on(subject, case, CLUSTER)


def baseline(session: Session, name: str = "byteps") -> Strategy:
    return BASELINES[name](session.model, CLUSTER)


def test_every_strategy_begins_from_the_same_values_and_batches(subject: Subject) -> None:
    session, losses = session_of(subject), []
    for name in ("byteps", "all_reduce_25mb", "byteps"):
        step = session.realize(baseline(session, name))
        assert {name: value.tolist() for name, value in subject.values(step, 2).items()} == {
            name: value.tolist() for name, value in DENSE.net.values("float64").items()
        }
        losses.append([step() for _ in range(8)])
        step.close()
    assert losses[0] == losses[2]
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
    assert losses[0][-1] < losses[0][0]


def test_a_closed_step_may_be_closed_again(subject: Subject) -> None:
    session = session_of(subject)
    step = session.realize(baseline(session))
    step.close()
    step.close()
    assert math.isfinite(session.realize(baseline(session))())


def test_a_loss_that_is_not_finite_is_returned_and_fails_the_trial(subject: Subject) -> None:
    session = session_of(subject, Case("dense", "diverging", "float32"))
    step = session.realize(baseline(session))
    assert not all(math.isfinite(step()) for _ in range(6))
    stage = TrialSetup(session.model, CLUSTER, WallClock(), Environment.here(engine_named(subject.name)))
    record = run_trial(session, TrialRequest(baseline(session), TimingProtocol(1, 6)), stage)
    assert record.outcome == "failed"
    assert "a trial must keep its loss finite" in record.reason
    assert (record.framework or DEFAULT) == subject.name


def test_a_strategy_that_does_not_fit_is_refused_and_changes_nothing(subject: Subject) -> None:
    session = session_of(subject)
    good = baseline(session)
    step = session.realize(good)
    losses = [step() for _ in range(2)]
    for bad, sentence in (
        (replace(good, variables=good.variables[1:]), r"has no synchronizer; .* Add it\."),
        (replace(good, replicas=("node0/cpu:7", *good.replicas[1:])), r"Replica 'node0/cpu:7' is not in the cluster\."),
    ):
        with pytest.raises(SpecError, match=sentence):
            session.realize(bad)
    losses.append(step())
    expected = session.realize(good)
    assert [expected() for _ in range(3)] == losses


def with_synchronizers(strategy: Strategy, change: Callable[[Synchronizer], Synchronizer]) -> Strategy:
    variables = (
        replace(choice, shards=tuple(change(shard) for shard in choice.shards)) for choice in strategy.variables
    )
    return replace(strategy, variables=tuple(variables))


def on_server(strategy: Strategy, staleness: int = 0, fewer: bool = False) -> Strategy:
    server = ParameterServer("node2/cpu:0", staleness=staleness)
    strategy = with_synchronizers(strategy, lambda _: server)
    return replace(strategy, replicas=strategy.replicas[:2]) if fewer else strategy


PARTS: dict[str, tuple[Callable[[Strategy], Strategy], str]] = {
    "a compressor": (
        lambda strategy: with_synchronizers(strategy, lambda _: AllReduce(0, compressor=Cast("bf16"))),
        "has a compressor",
    ),
    "a stale server": (lambda strategy: on_server(strategy, staleness=1), "accepts stale gradients"),
    "a discipline": (
        lambda strategy: replace(strategy, discipline=Discipline(rhythm=Rhythm(steps=2))),
        "it has a discipline",
    ),
    "fewer replicas": (lambda strategy: replace(strategy, replicas=strategy.replicas[:2]), "it has 2 replicas"),
    "a server apart": (lambda strategy: on_server(strategy, fewer=True), "on a node without a replica"),
}
"""Parts of strategies that an engine may refuse, and a part of the sentence."""


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_a_strategy_is_carried_out_or_refused_by_name(
    request: pytest.FixtureRequest, subject: Subject, part: str
) -> None:
    session = session_of(subject)
    add, clause = PARTS[part]
    strategy = add(baseline(session, "all_reduce_25mb"))
    faults = engine_named(subject.name).refusals(strategy, session.model, CLUSTER)
    request.node.user_properties.append(
        (ENGINES_TABLE, [f"strategy with {part}", "refused" if faults else "carried out"])
    )
    if not faults:
        step = session.realize(strategy)
        losses = [step() for _ in range(8)]
        step.close()
        assert losses[-1] < losses[0]
        return
    assert any(clause in fault for fault in faults)
    with pytest.raises(SpecError) as refused:
        session.realize(strategy)
    assert faults[0] in str(refused.value)
    assert "\n" not in str(refused.value)
    assert math.isfinite(session.realize(baseline(session))())


@pytest.mark.parametrize(
    ("name", "net", "optimizer"),
    [
        ("byteps", "tied", "momentum"),
        ("partitioned_parameter_server", "table", "adagrad"),
        ("all_reduce_25mb", "dense", "adam"),
    ],
)
def test_training_resumes_from_a_saved_state_to_the_bit(subject: Subject, name: str, net: str, optimizer: str) -> None:
    session = session_of(subject, Case(net, optimizer))
    strategy = baseline(session, name)
    step = session.realize(strategy)
    step(), step()
    saved = step.state()
    assert {name: value.tobytes() for name, value in saved.values.items()} == {
        name: value.tobytes() for name, value in step.values(1).items()
    }
    losses = [step() for _ in range(2)]
    values = subject.values(step, 2)
    step.close()
    again = session.realize(strategy)
    again.load(saved)
    assert [again() for _ in range(2)] == losses
    for replica in (0, 2):
        for name, value in subject.values(again, replica).items():
            assert value.tobytes() == values[name].tobytes()


def test_a_state_means_the_same_under_another_strategy(subject: Subject) -> None:
    session = session_of(subject)
    first = session.realize(baseline(session, "all_reduce_25mb"))
    first(), first()
    saved, losses = first.state(), [first(), first()]
    first.close()
    second = session.realize(baseline(session, "partitioned_parameter_server"))
    second.load(saved)
    assert [second(), second()] == pytest.approx(losses, rel=1e-6)


def test_a_state_of_another_model_is_refused(subject: Subject) -> None:
    session = session_of(subject)
    step = session.realize(baseline(session))
    step()
    saved = step.state()
    with pytest.raises(SpecError, match=r"has 0 variables|another model's"):
        step.load(replace(saved, values={}))
