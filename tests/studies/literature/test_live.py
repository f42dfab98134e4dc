"""Experiments on an emulated cluster, which is made for them and gone afterwards."""

from __future__ import annotations

import os

import pytest

from autosync.baselines import BASELINES
from autosync.errors import BenchError
from autosync.race.candidates import compressed
from autosync.spec import AllReduce, CutOff, Discipline, TopK, Transport
from autosync.studies.literature.links import sent_by
from autosync.studies.literature.live import Errand, steps_taken
from autosync.studies.literature.rows import Row
from tests.cases import mlp_model, star_cluster
from tests.trials.emulate.clusters import needs_root
from trials.emulate import find
from trials.fleet.lanes import Backend

TWO = "link: 1gbit\npace: {fixed: 30ms}\nnodes: [{count: 2}]\n"


def first_of_two(backend: Backend, cell: str, seed: int) -> list[Row]:
    record = steps_taken(backend, Discipline(waits=CutOff(1, "stop")), 6, seed)
    return [Row(cell, "first", seed, "gradients", float(sum(record.counted)), "paced", record.cluster.numbers)]


def too_many(backend: Backend, _cell: str, seed: int) -> list[Row]:
    steps_taken(backend, Discipline(waits=CutOff(3)), 6, seed)
    raise AssertionError


@pytest.mark.thorough
@needs_root
def test_what_was_measured_comes_back_and_what_failed_says_so() -> None:
    errand = Errand(TWO, "digits", f"{__name__}:first_of_two")
    assert errand.rows("two", 1) == [Row("two", "first", 1, "gradients", 6.0, "paced", "held")]
    with pytest.raises(BenchError, match="What was to be measured for 'two' ended with status"):
        Errand(TWO, "digits", f"{__name__}:too_many").rows("two", 0)
    assert find(f"literature{os.getpid()}") is None


def test_what_top_k_keeps_is_sent_by_one_transport() -> None:
    model, cluster = mlp_model(), star_cluster(4)
    strategy = compressed(BASELINES["all_reduce_25mb"](model, cluster), model, TopK(0.01))
    sent = [shard for _, _, shard in sent_by(strategy, Transport("star", "tree")).shards()]
    assert all(
        isinstance(each, AllReduce) and each.compressor == TopK(0.01, "star") and each.algorithm == "tree"
        for each in sent
    )
    assert sent_by(strategy, Transport("own")) == strategy
