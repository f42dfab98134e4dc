"""The replay reproduces AR-Topk's published cost table."""

from __future__ import annotations

import pytest

from studies.evaluation.ar_topk import PUBLISHED, PublishedTiming, median_error, predict_milliseconds, winners_right


@pytest.mark.parametrize("case", PUBLISHED, ids=lambda case: f"{case.model}-{case.gbit_per_s}-{case.ratio}")
def test_the_collective_that_won_is_predicted_to_win(case: PublishedTiming) -> None:
    predicted = predict_milliseconds(case)
    assert predicted.index(min(predicted)) == case.milliseconds.index(min(case.milliseconds))


def test_measured_times_are_predicted_with_a_median_error_of_three_percent() -> None:
    assert len(PUBLISHED) == 9
    assert winners_right() == 9
    assert median_error() <= 0.03
    errors = [
        abs(predicted / published - 1)
        for case in PUBLISHED
        for predicted, published in zip(predict_milliseconds(case), case.milliseconds, strict=True)
    ]
    assert max(errors) <= 0.12


def test_a_wrong_winner_and_a_wrong_time_are_counted() -> None:
    case = PUBLISHED[0]
    predicted = predict_milliseconds(case)
    wrong = PublishedTiming(
        case.model, case.parameters, case.gbit_per_s, case.ratio, (predicted[0] / 10, predicted[1], predicted[2])
    )
    assert winners_right([case, wrong]) == 1
    assert median_error([PublishedTiming(case.model, case.parameters, case.gbit_per_s, case.ratio, predicted)]) == 0.0


def test_the_closed_forms_of_the_paper_are_what_replays_of_its_collectives_take() -> None:
    workers, case = 8, PublishedTiming("ResNet18", 11_689_512, 1.0, 0.1, (1.0, 1.0, 1.0))
    alpha, beta, sent, log = 1e-3, 8e-9, case.ratio * case.parameters * 4, 3
    all_gather = log * alpha + 2 * sent * beta * (workers - 1)
    ring = alpha * (2 * (workers - 1) + log) + sent * beta * (2 * (workers - 1) / workers + log)
    tree = 3 * alpha * log + 3 * sent * beta * log
    assert predict_milliseconds(case) == pytest.approx(
        [1e3 * seconds for seconds in (all_gather, ring, tree)], rel=1e-9
    )
