"""The published cost table of AR-Topk is reproduced by the replay."""

from __future__ import annotations

import pytest

from autosync.studies.evaluation.ar_topk import PUBLISHED, Case, median_error, predicted_milliseconds, winners_right


@pytest.mark.parametrize("case", PUBLISHED, ids=lambda case: f"{case.model}-{case.gbit_per_s}-{case.ratio}")
def test_the_collective_that_won_is_predicted_to_win(case: Case) -> None:
    predicted = predicted_milliseconds(case)
    assert predicted.index(min(predicted)) == case.milliseconds.index(min(case.milliseconds))


def test_measured_times_are_predicted_with_a_median_error_of_three_percent() -> None:
    assert len(PUBLISHED) == 9
    assert winners_right() == 9
    assert median_error() <= 0.03
    errors = [
        abs(found / published - 1)
        for case in PUBLISHED
        for found, published in zip(predicted_milliseconds(case), case.milliseconds, strict=True)
    ]
    assert max(errors) <= 0.12


def test_a_wrong_winner_and_a_wrong_time_are_counted() -> None:
    case = PUBLISHED[0]
    found = predicted_milliseconds(case)
    wrong = Case(case.model, case.parameters, case.gbit_per_s, case.ratio, (found[0] / 10, found[1], found[2]))
    assert winners_right([case, wrong]) == 1
    assert median_error([Case(case.model, case.parameters, case.gbit_per_s, case.ratio, found)]) == 0.0


def test_the_closed_forms_of_the_paper_are_what_replays_of_its_collectives_take() -> None:
    workers, case = 8, Case("ResNet18", 11_689_512, 1.0, 0.1, (1.0, 1.0, 1.0))
    alpha, beta, sent, log = 1e-3, 8e-9, case.ratio * case.parameters * 4, 3
    all_gather = log * alpha + 2 * sent * beta * (workers - 1)
    ring = alpha * (2 * (workers - 1) + log) + sent * beta * (2 * (workers - 1) / workers + log)
    tree = 3 * alpha * log + 3 * sent * beta * log
    assert predicted_milliseconds(case) == pytest.approx([1e3 * each for each in (all_gather, ring, tree)], rel=1e-9)
