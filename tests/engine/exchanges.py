"""Runs exchanges alone, on logical devices: one step after another on given gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.state import AS_IT_IS, Correction
from autosync.engine.tensorflow.sync.compressed import bucket_exchange, server_exchange
from autosync.engine.tensorflow.sync.exchange import BucketPlace, ServerPlace
from autosync.engine.tensorflow.sync.member import Members
from autosync.engine.tensorflow.sync.topk_levels import TopKLevels
from autosync.layout.shards import Shard, Slice
from autosync.numeric import AnyArray
from autosync.spec import AllReduce, Compressor, ParameterServer, Variable
from tests.cases import star_cluster

__all__ = ["BucketSteps", "ServerSteps"]


def _members(count: int) -> Members:
    cluster = star_cluster(count)
    return Members.of(Placement.in_one_process(cluster), list(map(str, cluster.replica_devices)))


def _shard(shape: tuple[int, ...], number: int, synchronizer: Any, dtype: str = "float32") -> Shard:
    variable = Variable(f"variable_{number}", shape, dtype, number)
    return Shard(Slice(variable, number, 0, 0, 0, shape[0] if shape else 1), synchronizer)


class BucketSteps:
    """A bucket of shards of `shapes`. Each call is one step: `gradients[r][s]` in, every replica's flat mean out."""

    def __init__(self, compressor: Compressor, shapes: Sequence[tuple[int, ...]], replicas: int) -> None:
        synchronizer = AllReduce(0, compressor=compressor)
        shards = tuple(_shard(shape, number, synchronizer) for number, shape in enumerate(shapes))
        self.exchange = bucket_exchange(BucketPlace(shards, _members(replicas)), TopKLevels(None))
        self.traced = tf.function(self._step, autograph=False)

    def __call__(
        self, gradients: Sequence[Sequence[AnyArray]], allowed: bool = True, growth: float = 1.0
    ) -> list[AnyArray]:
        given = [[tf.constant(gradient) for gradient in of_replica] for of_replica in gradients]
        return [mean.numpy() for mean in self.traced(given, tf.constant(allowed), tf.constant(growth))]

    def remembered(self) -> list[AnyArray]:
        return [variable.numpy() for memory in self.exchange.memories for variable in memory.variables]

    def _step(self, gradients: Any, allowed: Any, growth: Any) -> list[Any]:
        means = [tf.concat(pieces, 0) for pieces in self.exchange.means(gradients)]
        for memory in self.exchange.memories:
            memory.advance(Correction(None, allowed, growth))
        return means


class ServerSteps:
    """A shard of `shape` on the last of the replicas' devices. Each call is one step: `gradients[r]` in, mean out."""

    def __init__(self, compressor: Compressor, shape: tuple[int, ...], replicas: int) -> None:
        members = _members(replicas)
        shard = _shard(shape, 0, ParameterServer("node0/cpu:0", compressor=compressor))
        self.exchange = server_exchange(ServerPlace((shard,), members[-1], members), TopKLevels(None))
        self._traced = tf.function(self._step, autograph=False)

    def __call__(self, gradients: Sequence[AnyArray]) -> AnyArray:
        return np.asarray(self._traced([tf.constant(gradient) for gradient in gradients]).numpy())

    def _step(self, gradients: Any) -> Any:
        mean = self.exchange.mean(gradients)
        for memory in self.exchange.memories:
            memory.advance(AS_IT_IS)
        return mean
