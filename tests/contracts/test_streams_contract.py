"""The contract of streams: a pass waits until its examples have arrived, and training uses exactly these examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autosync.baselines import BASELINES
from autosync.engine.core.control_loop import ControlLoop
from autosync.engine.core.timetable import Timetable
from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.step.session import TensorFlowSession
from autosync.engine.tensorflow.step.synchronous import SynchronousStep
from autosync.errors import SpecError
from autosync.spec import PLAIN, CutOff, Discipline, Loads, ModelProfile, Pace
from autosync.words.cluster import pace_in_words
from tests.cases import star_cluster
from tests.contracts.test_loads_contract import assert_same, captured, stepping
from trials.cluster.pace_entry import PaceEntry

RATES = (6400.0, 1600.0, 1600.0)


def stepping_over(rates: Sequence[float | None], discipline: Discipline = PLAIN, numbers: str = "held") -> Any:
    """Steps of a model with batches of 16, whose passes take 2 ms once their examples have arrived."""
    cluster, model = star_cluster(len(rates)), captured()
    ready = {variable.name: 1.0 for variable in model.spec.variables}
    model = replace(model, spec=replace(model.spec, profile=ModelProfile(0.001, 0.001, ready)))
    paces = [Pace(0.0, 0.002, numbers, stream=rate) for rate in rates]
    nodes = tuple(replace(node, pace=pace) for node, pace in zip(cluster.nodes, paces, strict=True))
    session = TensorFlowSession(model, replace(cluster, nodes=nodes), Placement.in_one_process(cluster))
    strategy = BASELINES["all_reduce_25mb"](session.model, session.cluster)
    return session.realize(replace(strategy, discipline=discipline))


class TestTimetable:
    def test_a_pass_waits_for_its_examples_and_what_is_left_over_is_kept(self) -> None:
        now = [100.0]
        timetable = Timetable([10.0, None, 5.0], True, lambda: now[0])
        seconds, wanted = np.array([1.0, 1.0, 1.0]), [True] * 3
        ends = timetable.begin(seconds, [20, 20, 20], wanted)
        assert ends.arrivals == (3.0, 1.0, 5.0)
        np.testing.assert_allclose(ends.delays, [2.0, 0.0, 4.0])
        now[0] += 6.0
        timetable.end()
        assert timetable.buffered == (40.0, None, 10.0)
        assert timetable.begin(seconds, [20, 20, 20], wanted).arrivals == (1.0, 1.0, 3.0)

    def test_until_they_meet_each_replica_goes_on_when_it_is_through(self) -> None:
        timetable, wanted = Timetable([None, None], True, lambda: 0.0), [True] * 2
        takes = []
        for seconds, apart in (
            ([1.0, 3.0], True),
            ([3.0, 0.5], True),
            ([1.0, 1.0], False),
            ([1.0, 9.0], True),
            ([2.0, 1.0], False),
        ):
            ends = timetable.begin(np.array(seconds), [1, 1], wanted, apart=apart)
            assert ends.arrivals == tuple(seconds)
            takes.append((ends.delays + ends.waited).tolist())
            timetable.end()
        # Until the synchronization in the third step, the first replica takes 1, 3 and 1 s without a pause, the second
        # 3, 0.5 and 1 s. The first replica ends its fifth pass before the fourth step is over.
        assert takes == [[1.0, 3.0], [1.0, 0.5], [1.0, 0.5], [1.0, 9.0], [0.0, 1.0]]

    def test_examples_of_a_pass_that_does_not_count_stay(self) -> None:
        now = [100.0]
        timetable = Timetable([10.0, 10.0, 1.0], True, lambda: now[0])
        ends = timetable.begin(np.ones(3), [10, 10, 10], [True] * 3, first=2)
        assert ends.arrivals == (2.0, 2.0, None)
        np.testing.assert_allclose(ends.delays + ends.waited, 2.0)
        now[0] += 2.0
        timetable.end()
        assert timetable.buffered == (10.0, 10.0, 2.0)


def test_a_step_lasts_until_the_last_examples_have_come() -> None:
    step = stepping_over(RATES)
    assert isinstance(step, ControlLoop)
    step()
    step.load(step.state())  # empty the buffer: many examples have arrived while the step was traced
    step()
    assert step.report is not None
    assert step.report.seconds is not None
    assert step.report.seconds >= 16 / 1600
    assert step.report.buffered[0] is not None
    assert step.report.buffered[0] > 40  # a step takes 16 of the at least 64 examples that arrive
    assert step.report.examples == (16, 16, 16)


def test_loads_by_rate_wait_alike() -> None:
    step = stepping_over(RATES, Discipline(loads=Loads(RATES)))
    step()
    assert step.report.examples == (32, 8, 8)
    assert step.report.arrivals == pytest.approx((0.007, 0.007, 0.007))


@pytest.mark.parametrize("discipline", [PLAIN, Discipline(loads=Loads(RATES))], ids=["evenly", "by rate"])
def test_waiting_changes_no_bit(discipline: Discipline) -> None:
    over, plain = stepping_over(RATES, discipline), stepping(discipline)
    for _ in range(3):
        over()
        plain()
    assert_same(over, plain)


def test_who_has_too_few_examples_can_be_left_behind() -> None:
    step = stepping_over((64_000.0, 64_000.0, 0.1), Discipline(waits=CutOff(2, "stop")))
    step()
    assert step.report.examples == (16, 16, None)
    assert step.report.seconds < 16 / 0.1  # less than the time in which its examples arrive


def test_recorded_passes_have_their_examples_at_hand() -> None:
    assert isinstance(stepping_over(RATES, numbers="recorded"), SynchronousStep)


def test_a_cluster_file_states_it() -> None:
    pace = PaceEntry(fixed="20ms", stream=64.0).pace("")
    assert pace.stream == 64
    assert Pace.from_json(pace.to_json()) == pace
    assert "stream" not in Pace(1.0).to_json()
    assert pace_in_words(pace) == "paced passes of 20 ms (recorded numbers), 64 examples a second"
    with pytest.raises(SpecError, match="A stream's examples a second is from"):
        Pace(stream=-1.0)
