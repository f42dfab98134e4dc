"""Every example of a batch has the same weight, however many replicas share the batch."""

from __future__ import annotations

import numpy as np
import pytest

from autosync.engine.core.batch_split import weights_by_examples
from autosync.train.data import shares


@pytest.mark.parametrize(("examples", "replicas"), [(12, 3), (13, 3), (11, 3), (2, 3), (1, 8), (7, 1)])
def test_the_weighed_mean_of_replicas_means_is_the_mean_over_all_examples(examples: int, replicas: int) -> None:
    losses = np.random.default_rng(0).normal(size=examples)
    dealt = shares(examples, replicas)
    weights = weights_by_examples([share.counted for share in dealt]) or (1.0,) * replicas
    means = [losses[share.begin : share.end].mean() for share in dealt]
    assert sum(share.counted for share in dealt) == examples
    assert np.mean(weights) == pytest.approx(1.0)
    assert np.mean(np.multiply(weights, means)) == pytest.approx(losses.mean())


def test_a_replica_without_an_example_runs_a_copy_that_counts_nothing() -> None:
    last = shares(2, 3)[2]
    assert (last.end - last.begin, last.counted) == (1, 0)


def test_even_shares_need_no_weights() -> None:
    assert weights_by_examples([4, 4, 4]) is None
