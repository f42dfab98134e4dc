"""The synchronizer contract: training with Keras equals that of one process on the whole batch, for every kind of
variable and optimizer. `tests/engine/contracts` has the part of the contract that is the same for all engines.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.tensorflow.step import placed_model as placed
from autosync.engine.tensorflow.step import replica
from autosync.engine.tensorflow.sync import dense as whole
from autosync.engine.tensorflow.sync.parameter_server import DenseServer, SparseServer
from autosync.spec import ClusterSpec, ParameterServer, Strategy, VariableStrategy
from tests.cases import local_cluster, star_cluster
from tests.contracts.over_servers import CASES
from tests.contracts.parity import BOUNDS, ROUNDED_BOUNDS, reference, session_on, trained_alike
from tests.contracts.tasks import MORE_OPTIMIZERS, OPTIMIZERS, OVER_ALL_GRADIENTS, TASKS
from tests.contracts.ways import ALONE, ROUNDED, random_mixture
from tests.cover import crossed
from tests.engine.worker_processes import REPOSITORY, quiet, worker_processes

FOUR_WORKERS = local_cluster(4)
CLUSTERS = {"three workers": local_cluster(3), "two nodes of two": star_cluster(nodes=2, workers=2)}
ROUNDED_CASES = [
    *(("two nodes of two", way) for way in ROUNDED if way != "fp16 rings, a variable each"),
    ("three workers", "fp16, every algorithm"),
    pytest.param("two nodes of two", "fp16 rings, a variable each", marks=pytest.mark.thorough),
    pytest.param("three workers", "bf16, every algorithm", marks=pytest.mark.thorough),
]
LIKE_ONE_PROCESS = [name for name in TASKS if name != "normalized"]


class TestAStrategyTrainsLikeOneProcess:
    """To test a new kind of variable, add a line to `tasks.TASKS`."""

    @pytest.mark.quick("dense-*", "table-*", "tied-*", "convolution-*", "two dtypes-*")
    @pytest.mark.parametrize(("task", "optimizer"), crossed(LIKE_ONE_PROCESS, OPTIMIZERS))
    def test_on_every_task_with_a_random_mixture(self, task, optimizer, tally):
        session = session_on(task, optimizer, FOUR_WORKERS)
        seed = random.Random(f"{task} {optimizer}")  # the same in every process
        step = session.realize(random_mixture(session.model, FOUR_WORKERS, seed))
        tally(optimizer, trained_alike(step, reference(task, optimizer, 4), BOUNDS[optimizer]).worst_error)

    @pytest.mark.quick("scheduled")
    @pytest.mark.parametrize("optimizer", MORE_OPTIMIZERS)
    def test_with_optimizers_whose_state_is_of_another_kind(self, optimizer, tally):
        session = session_on("pooled", optimizer, FOUR_WORKERS)
        step = session.realize(ALONE["shards of both kinds"](session.model, FOUR_WORKERS))
        tally(optimizer, trained_alike(step, reference("pooled", optimizer, 4), BOUNDS[optimizer]).worst_error)

    @pytest.mark.quick("clipped Adam-two rings")
    @pytest.mark.parametrize(
        ("optimizer", "way"),
        crossed(OVER_ALL_GRADIENTS, ["servers, first axis cut", "two rings", "shards of both kinds"]),
    )
    def test_with_gradients_clipped_by_their_common_norm_and_losses_scaled(self, optimizer, way, tally):
        session = session_on("pooled", optimizer, FOUR_WORKERS)
        step = session.realize(ALONE[way](session.model, FOUR_WORKERS))
        tally(optimizer, trained_alike(step, reference("pooled", optimizer, 4), BOUNDS[optimizer]).worst_error)

    @pytest.mark.parametrize("way", ["servers, first axis cut", "shards of both kinds"])
    def test_with_replicas_on_some_devices_and_servers_on_all(self, way, tally):
        session = session_on("table", "Adam", FOUR_WORKERS)
        strategy = replace(ALONE[way](session.model, FOUR_WORKERS), replicas=("node0/cpu:3", "node0/cpu:1"))
        expected = reference("table", "Adam", 2)
        tally("Adam", trained_alike(session.realize(strategy), expected, BOUNDS["Adam"]).worst_error)

    @pytest.mark.quick("two nodes of two-bf16 servers", "two nodes of two-fp16 ring")
    @pytest.mark.parametrize(("cluster", "way"), ROUNDED_CASES)
    def test_but_for_rounding_with_gradients_in_16_bits(self, cluster, way, tally):
        of_way, dtype = CLUSTERS[cluster], way[:4]
        session = session_on("table", "momentum", of_way)
        step = session.realize(ROUNDED[way](session.model, of_way))
        expected = reference("table", "momentum", len(step.strategy.replicas))
        error = trained_alike(step, expected, ROUNDED_BOUNDS[dtype]).worst_error
        tally(f"{dtype} momentum", error)
        assert error > BOUNDS["momentum"], "Gradients did not travel in 16 bits."


@pytest.mark.parametrize("way", ["one server", "two rings", "shards of both kinds"])
def test_batch_norm_statistics_differ_by_replica_and_variables_do_not(way):
    session = session_on("normalized", "momentum", FOUR_WORKERS)
    step = session.realize(ALONE[way](session.model, FOUR_WORKERS))
    for _ in range(5):
        assert np.isfinite(step())
    of_replicas = [step.values(replica) for replica in range(4)]
    for name, value in of_replicas[0].items():
        assert np.isfinite(value).all()
        assert {of_replica[name].tobytes() for of_replica in of_replicas} == {value.tobytes()}
    moving_means = {replica.state[0].numpy().tobytes() for replica in step.placed.replicas}
    assert len(moving_means) == 4


@cache
def reports(which: str):
    """The results of a client of four real servers for each of these cases."""
    with worker_processes(4) as addresses:
        command = [sys.executable, "-m", "tests.contracts.over_servers", which, *addresses]
        done = subprocess.run(command, cwd=REPOSITORY, env=quiet(), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {tuple(item["case"]): item for item in found}


def over_servers():
    """Parametrize over `which` group of cases and the case; the cases of `more` are only in `make test-all`."""
    marks = {"usual": (), "more": pytest.mark.thorough}
    return [
        pytest.param(which, case, id=" | ".join(case), marks=marks[which]) for which in CASES for case in CASES[which]
    ]


@pytest.mark.thorough
@pytest.mark.parametrize(("which", "case"), over_servers())
def test_over_real_servers_a_strategy_trains_like_one_process(which, case, tally):
    report = reports(which)[case]
    assert report["failure"] is None
    tally(case[1], report["error"])


def _all_on(cluster: ClusterSpec, device: str, names: list[str]) -> Strategy:
    replicas = tuple(str(device) for device in cluster.replica_devices)
    return Strategy(replicas, tuple(VariableStrategy(name, (ParameterServer(device),)) for name in names))


class TestValuesLiveWhereTheStrategySays:
    def test_a_server_holds_its_shards_and_their_slots(self):
        session = session_on("table", "Adam", FOUR_WORKERS)
        step = session.realize(
            _all_on(FOUR_WORKERS, "node0/cpu:2", [variable.name for variable in session.model.variables])
        )
        servers, sparse = step.placed.servers, step.placed.sparse.values()
        held = [server.block for server in servers] + [shard.rows for shard in sparse]
        assert sum(len(server.shards) for server in servers) + len(sparse) == len(session.model.variables)
        assert {_device(variable) for block in held for variable in (block.value, *block.slots)} == {2}
        assert {len(block.slots) for block in held} == {2}

    def test_every_replica_apart_from_a_server_has_a_copy_of_its_values_between_steps(self):
        session = session_on("table", "Adam", FOUR_WORKERS)
        step = session.realize(
            _all_on(FOUR_WORKERS, "node0/cpu:2", [variable.name for variable in session.model.variables])
        )
        for server in step.placed.servers:
            assert [_device(variable) for variable in server.copies.variables.values()] == [0, 1, 3]

    def test_every_replica_holds_every_bundle_and_every_gathered_table(self):
        session = session_on("table", "momentum", FOUR_WORKERS)
        step = session.realize(ALONE["two rings"](session.model, FOUR_WORKERS))
        assert not step.placed.servers
        groups = [bundle.blocks for bundle in step.placed.bundles] + [
            sparse.tables for sparse in step.placed.sparse.values()
        ]
        assert [len(bundle.buckets) for bundle in step.placed.bundles] == [2]  # small buckets, so one array holds both
        assert len(groups) == 2
        for copies in groups:
            assert [_device(copy_.value) for copy_ in copies] == [0, 1, 2, 3]
            assert [_device(copy_.slots[0]) for copy_ in copies] == [0, 1, 2, 3]

    def test_shards_of_one_variable_are_spread_over_servers(self):
        session = session_on("dense", "SGD", FOUR_WORKERS)
        step = session.realize(ALONE["servers, first axis cut"](session.model, FOUR_WORKERS))
        shards = {shard: server for server in step.placed.servers for shard in server.shards}
        kernel = sorted(
            (shard for shard in shards if shard.slice.variable_index == 0), key=lambda shard: shard.slice.index
        )
        assert [_device(shards[shard].block.value) for shard in kernel] == [0, 1, 2]
        assert [shard.elements for shard in kernel] == [3 * 13, 2 * 13, 2 * 13]


def _device(variable: Any) -> int:
    return tf.DeviceSpec.from_string(variable.device).device_index


class TestTheContractRefuses:
    """Every test breaks one part on purpose, and the comparison must notice."""

    def refused(self, way: str, message: str, task: str = "table") -> None:
        session = session_on(task, "SGD", FOUR_WORKERS)
        step = session.realize(ALONE[way](session.model, FOUR_WORKERS))
        with pytest.raises(AssertionError, match=message):
            trained_alike(step, reference(task, "SGD", 4), BOUNDS["SGD"])

    def test_one_shard_whose_gradient_is_off_by_a_thousandth(self, monkeypatch):
        split = placed.split_gradient

        def wrong(*arguments: Any) -> dict[Any, Any]:
            return {key: part * (1.001 if key == (1, 2) else 1.0) for key, part in split(*arguments).items()}

        monkeypatch.setattr(placed, "split_gradient", wrong)
        self.refused("servers, first axis cut", r"Variable 'dense/kernel' is off by [1-9.]+e-05, more than 1e-05")

    def test_a_sum_in_place_of_the_mean(self, monkeypatch):
        flat_bucket = whole.flat_bucket
        monkeypatch.setattr(whole, "flat_bucket", lambda *given: [array * 4 for array in flat_bucket(*given)])
        self.refused("one ring", r"Loss 1 is .*, but in one process")

    def test_a_gradient_that_one_replica_keeps_to_itself(self, monkeypatch):
        pieces = DenseServer.pieces
        monkeypatch.setattr(DenseServer, "pieces", lambda self, parts: pieces(self, [parts[0]] * len(parts)))
        self.refused("one server", r"Loss 1 is .*, but in one process")

    def test_rows_touched_by_several_replicas_that_are_overwritten_in_place_of_summed(self, monkeypatch):
        def push(self: SparseServer, ids: Any, gradients: Any) -> list[Any]:
            with tf.device(self.rows.device):
                all_ids, rows = tf.concat(ids, 0), tf.concat(gradients, 0)
                updated = self.rows.value.sparse_read(all_ids) - 0.1 / len(ids) * rows
                self.rows.value.scatter_update(tf.IndexedSlices(updated, all_ids))
            return []

        monkeypatch.setattr(SparseServer, "push", push)
        self.refused("one server", r"Loss 1 is .*, but in one process")

    def test_rows_repeated_within_a_batch_that_are_averaged_in_place_of_summed(self, monkeypatch):
        def mean_by_row(rows: Any, raw_ids: Any, ids: Any) -> Any:
            places = tf.searchsorted(ids, tf.cast(tf.reshape(raw_ids, [-1]), ids.dtype))
            return tf.math.unsorted_segment_mean(rows, places, tf.size(ids))

        monkeypatch.setattr(replica, "_sum_by_row", mean_by_row)
        self.refused("one ring", r"Loss 1 is .*, but in one process")

    def test_a_replica_whose_bits_differ_in_the_last_place(self):
        session = session_on("dense", "SGD", FOUR_WORKERS)
        step = session.realize(ALONE["one ring"](session.model, FOUR_WORKERS))
        expected = reference("dense", "SGD", 4)
        for batches in expected.batches:
            step.on(batches)
        block = step.placed.bundles[0].blocks[3].value
        block.assign(np.nextafter(block.numpy(), np.float32(9)))
        with pytest.raises(AssertionError, match="Replica 3 holds other bytes of 'dense/kernel'"):
            trained_alike(step, replace(expected, batches=(), losses=()), 1.0)
