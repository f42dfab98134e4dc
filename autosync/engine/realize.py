"""Realizing a strategy: variables where it says, and one multi-device function that runs its step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from autosync.engine.layout import Shard, buckets, on_servers, shards_of
from autosync.engine.placement import Placement
from autosync.engine.replica import CompiledModel, Lookups, Replica, Results
from autosync.engine.state import Optimizer, Scalars
from autosync.engine.sync.gathered_rows import GatheredRows
from autosync.engine.sync.parameter_server import DenseServer, SparseServer
from autosync.engine.sync.ring import RingBucket
from autosync.spec import AllReduce, Strategy

__all__ = ["Start", "Step", "realize"]

Key = tuple[int, int]  # variable number, shard number


@final
class Start:
    """Initial values of variables and state, copied to a device once and kept there for every strategy."""

    def __init__(self, model: CompiledModel) -> None:
        self._captured = model.captured
        self._values: dict[str, list[Any]] = {}
        self._state: dict[str, list[Any]] = {}

    def values(self, device: str) -> list[Any]:
        """Initial variable values as tensors on `device`."""
        return self._placed(self._values, self._captured.initial_values, device)

    def state(self, device: str) -> list[Any]:
        return self._placed(self._state, self._captured.initial_state, device)

    @staticmethod
    def _placed(placed: dict[str, list[Any]], arrays: Sequence[Any], device: str) -> list[Any]:
        import tensorflow as tf

        if device not in placed:
            with tf.device(device):
                placed[device] = [tf.identity(tf.constant(array)) for array in arrays]
        return placed[device]


def realize(
    model: CompiledModel, optimizers: Mapping[str, Optimizer], strategy: Strategy, placement: Placement, start: Start
) -> Step:
    """Place every variable as `strategy` says. The strategy must have passed `check_strategy`.

    The step is traced when it is first called.
    """
    return Step(model, optimizers, strategy, placement, start)


@final
class Step:
    """A strategy at work: call it for one synchronous step, read the values it has reached."""

    def __init__(
        self,
        model: CompiledModel,
        optimizers: Mapping[str, Optimizer],
        strategy: Strategy,
        placement: Placement,
        start: Start,
    ) -> None:
        import tensorflow as tf

        self.strategy = strategy
        self._model = model
        self._spec = model.captured.spec
        self._optimizers = optimizers
        self._placement = placement
        self._start = start
        self._scalars: dict[tuple[str, str], Scalars] = {}
        self._devices = [placement.name(each) for each in strategy.replicas]
        self._replicas = [
            Replica(model, number, device, start.state(device)) for number, device in enumerate(self._devices)
        ]
        self._layout = shards_of(strategy, self._spec)
        self._servers: dict[Key, DenseServer] = {}
        self._buckets: list[RingBucket] = []
        self._sparse: dict[Key, SparseServer | GatheredRows] = {}
        self._place()
        self._wait_until_placed()
        self._own_batches = tf.function(self._step, autograph=False)
        self._given_batches = tf.function(self._step_on, autograph=False)

    def __call__(self) -> float:
        """Run one step on the replicas' own synthetic batches; the mean loss before the update."""
        return float(self._own_batches())

    def on(self, batches: Sequence[Sequence[Any]]) -> float:
        """Run one step on given flat batches, one a replica and all of one size; the mean loss before the update."""
        return float(self._given_batches([list(batch) for batch in batches]))

    def values(self, replica: int = 0) -> dict[str, npt.NDArray[Any]]:
        """Every variable's value as replica `replica` sees it."""
        held: dict[Key, Any] = {key: server.block.value for key, server in self._servers.items()}
        for key, sparse in self._sparse.items():
            held[key] = (sparse.rows if isinstance(sparse, SparseServer) else sparse.tables[replica]).value
        arrays = {key: each.numpy() for key, each in held.items()}
        for bucket in self._buckets:
            ends = np.cumsum([shard.elements for shard in bucket.shards])[:-1]
            for shard, part in zip(bucket.shards, np.split(bucket.blocks[replica].value.numpy(), ends), strict=True):
                arrays[_key(shard)] = part
        return {
            shards[0].variable.name: np.concatenate(
                [np.reshape(arrays[_key(shard)], shard.shape) for shard in shards], shards[0].axis
            )
            if shards[0].shape
            else np.reshape(arrays[_key(shards[0])], ())
            for shards in self._layout
        }

    def _scalars_on(self, device: str, dtype: str) -> Scalars:
        if (device, dtype) not in self._scalars:
            self._scalars[device, dtype] = Scalars(self._optimizers[dtype], device)
        return self._scalars[device, dtype]

    def _initial(self, shard: Shard, device: str) -> Any:
        """The shard's initial value as a tensor on `device`."""
        import tensorflow as tf

        value = self._start.values(device)[shard.variable_index]
        if not shard.shape or shard.size == shard.variable.shape[shard.axis]:
            return value
        with tf.device(device):
            begin = [0] * len(shard.shape)
            begin[shard.axis] = shard.start
            return tf.slice(value, begin, shard.shape)

    def _place(self) -> None:
        """Create every block of values and optimizer slots on its device."""
        shards = [shard for of_variable in self._layout for shard in of_variable]
        for shard in on_servers(shards):
            home = self._placement.name(getattr(shard.synchronizer, "device", ""))
            scalars, initial = self._scalars_on(home, shard.variable.dtype), self._initial(shard, home)
            if shard.variable.sparse:
                self._sparse[_key(shard)] = SparseServer(shard, scalars, initial)
            else:
                self._servers[_key(shard)] = DenseServer(shard, scalars, initial, self._placement)
        for group in buckets(shards):
            on_replicas = [self._scalars_on(device, group[0].variable.dtype) for device in self._devices]
            initial = [[self._initial(shard, device) for shard in group] for device in self._devices]
            self._buckets.append(RingBucket(group, on_replicas, initial))
        for shard in shards:
            if shard.variable.sparse and isinstance(shard.synchronizer, AllReduce):
                on_replicas = [self._scalars_on(device, shard.variable.dtype) for device in self._devices]
                initial = [self._initial(shard, device) for device in self._devices]
                self._sparse[_key(shard)] = GatheredRows(shard, on_replicas, initial)

    def _wait_until_placed(self) -> None:
        """Assigning to a variable on a worker only queues it there, and a function that runs next may come first."""
        import tensorflow as tf

        for device in sorted({*self._devices, *(device for device, _ in self._scalars)}):
            with tf.device(device):
                tf.zeros([]).numpy()  # queued behind the rest, and waited for

    def _step(self) -> Any:
        return self._step_on([replica.next_batch() for replica in self._replicas])

    def _step_on(self, batches: Sequence[Sequence[Any]]) -> Any:
        import tensorflow as tf

        for scalars in self._scalars.values():
            scalars.begin()
        lookups = [replica.look_up(batch) for replica, batch in zip(self._replicas, batches, strict=True)]
        values = self._pull(lookups)
        results = [
            replica.run(of_replica, batch, found)
            for replica, of_replica, batch, found in zip(self._replicas, values, batches, lookups, strict=True)
        ]
        self._push(results, lookups)
        for scalars in self._scalars.values():
            scalars.advance()
        with tf.device(self._devices[0]):
            return tf.add_n([each.loss for each in results]) * (1.0 / len(results))

    def _pull(self, lookups: Sequence[Lookups]) -> list[list[Any]]:
        """For every replica the value of every variable: whole, or the rows it looks up."""
        import tensorflow as tf

        names = list(self.strategy.replicas)
        held: list[dict[Key, Any]] = [{} for _ in names]
        for key, server in self._servers.items():
            for of_replica, value in zip(held, server.pull(names), strict=True):
                of_replica[key] = value
        for bucket in self._buckets:
            for of_replica, parts in zip(held, bucket.pull(), strict=True):
                of_replica.update(zip(map(_key, bucket.shards), parts, strict=True))
        values: list[list[Any]] = [[] for _ in names]
        for shards in self._layout:
            if shards[0].variable.sparse:
                rows = self._pull_rows(shards, lookups)
                for of_values, each in zip(values, rows, strict=True):
                    of_values.append(each)
                continue
            for device, of_replica, of_values in zip(self._devices, held, values, strict=True):
                with tf.device(device):
                    parts = [of_replica[_key(shard)] for shard in shards]
                    of_values.append(tf.concat(parts, shards[0].axis) if len(parts) > 1 else parts[0])
        return values

    def _pull_rows(self, shards: Sequence[Shard], lookups: Sequence[Lookups]) -> list[Any]:
        import tensorflow as tf

        number = shards[0].variable_index
        local = [
            _split_ids(shards, each.ids[number], device) for each, device in zip(lookups, self._devices, strict=True)
        ]
        pulled = [self._sparse[_key(shard)].pull([of_replica[shard.index] for of_replica in local]) for shard in shards]
        rows = []
        for replica, device in enumerate(self._devices):
            with tf.device(device):
                parts = [of_shard[replica] for of_shard in pulled]
                rows.append(tf.concat(parts, 0) if len(parts) > 1 else parts[0])
        return rows

    def _push(self, results: Sequence[Results], lookups: Sequence[Lookups]) -> None:
        """Hand every gradient to its synchronizer; what is reduced when follows from the data alone."""
        names = list(self.strategy.replicas)
        parts: list[dict[Key, Any]] = [{} for _ in names]
        for shards in self._layout:
            if shards[0].variable.sparse:
                self._push_rows(shards, results, lookups)
            else:
                for device, of_replica, result in zip(self._devices, parts, results, strict=True):
                    of_replica.update(_split_gradient(shards, result.gradients[shards[0].variable_index], device))
        for key, server in self._servers.items():
            server.push(names, [of_replica[key] for of_replica in parts])
        for bucket in self._buckets:
            bucket.push([[of_replica[_key(shard)] for shard in bucket.shards] for of_replica in parts])

    def _push_rows(self, shards: Sequence[Shard], results: Sequence[Results], lookups: Sequence[Lookups]) -> None:
        number = shards[0].variable_index
        ids = [
            _split_ids(shards, each.ids[number], device) for each, device in zip(lookups, self._devices, strict=True)
        ]
        rows = [
            _split_rows(shards, found.ids[number], result.gradients[number], device)
            for found, result, device in zip(lookups, results, self._devices, strict=True)
        ]
        for shard in shards:
            self._sparse[_key(shard)].push(
                [of_replica[shard.index] for of_replica in ids], [of_replica[shard.index] for of_replica in rows]
            )


def _key(shard: Shard) -> Key:
    return shard.variable_index, shard.index


def _split_gradient(shards: Sequence[Shard], gradient: Any, device: str) -> dict[Key, Any]:
    """A dense gradient's pieces, by shard."""
    import tensorflow as tf

    with tf.device(device):
        pieces = tf.split(gradient, [shard.size for shard in shards], shards[0].axis) if len(shards) > 1 else [gradient]
        return {_key(shard): piece for shard, piece in zip(shards, pieces, strict=True)}


def _split_ids(shards: Sequence[Shard], ids: Any, device: str) -> list[Any]:
    """Sorted distinct row numbers, by shard and counted from each shard's first row."""
    import tensorflow as tf

    with tf.device(device):
        if len(shards) == 1:
            return [tf.identity(ids)]
        return [each - shard.start for shard, each in zip(shards, _cut(shards, ids, ids), strict=True)]


def _split_rows(shards: Sequence[Shard], ids: Any, rows: Any, device: str) -> list[Any]:
    """`rows`, one for each of the sorted `ids`, by shard."""
    import tensorflow as tf

    with tf.device(device):
        return _cut(shards, ids, rows) if len(shards) > 1 else [rows]


def _cut(shards: Sequence[Shard], ids: Any, tensor: Any) -> list[Any]:
    """Cut `tensor` along axis 0 where the sorted `ids` pass from one shard to the next."""
    import tensorflow as tf

    bounds = tf.searchsorted(ids, tf.constant([shard.start for shard in shards[1:]], ids.dtype))
    ends = tf.concat([bounds, [tf.size(ids)]], 0)
    begins = tf.concat([[0], bounds], 0)
    return [tensor[begins[index] : ends[index]] for index in range(len(shards))]
