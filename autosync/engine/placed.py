"""A strategy in place: every block of values on its device, and the gradients' way to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

from autosync.engine.layout import Shard, buckets, on_servers, shards_of
from autosync.engine.placement import Placement
from autosync.engine.replica import CompiledModel, Lookups, Replica, Results
from autosync.engine.state import Correction, Optimizer, Scalars
from autosync.engine.sync.bucket import Bucket
from autosync.engine.sync.exchange import BucketPlace, FactorPair, ServerPlace
from autosync.engine.sync.gathered_rows import GatheredRows
from autosync.engine.sync.member import Member
from autosync.engine.sync.memory import Memory
from autosync.engine.sync.parameter_server import DenseServer, SparseServer
from autosync.engine.sync.update import Update
from autosync.spec import AllReduce, Strategy, SufficientFactors

__all__ = ["Key", "Placed", "Start", "key_of", "split_gradient", "split_rows"]

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


@final
class Placed:
    """Variables, optimizer slots and replicas, where a strategy says; reads values for them and takes gradients."""

    def __init__(
        self,
        model: CompiledModel,
        optimizers: Mapping[str, Optimizer],
        strategy: Strategy,
        placement: Placement,
        start: Start,
    ) -> None:
        self.strategy = strategy
        self.members = tuple(Member.of(placement, each) for each in strategy.replicas)
        self.devices = [member.device for member in self.members]
        self.layout = shards_of(strategy, model.captured.spec)
        factored = frozenset(
            shards[0].variable_index
            for shards in self.layout
            if isinstance(shards[0].synchronizer.compressor, SufficientFactors)
        )
        self.replicas = [
            Replica(model, number, device, start.state(device), factored) for number, device in enumerate(self.devices)
        ]
        self.servers: dict[Key, DenseServer] = {}
        self.buckets: list[Bucket] = []
        self.sparse: dict[Key, SparseServer | GatheredRows] = {}
        self.scalars: dict[tuple[str, str], Scalars] = {}
        self._optimizers = optimizers
        self._placement = placement
        self._start = start
        self._place()
        self.wait()

    def pull(self, lookups: Sequence[Lookups], replicas: Sequence[int] | None = None) -> list[list[Any]]:
        """For each of `replicas` (all, if None) the value of every variable: whole, or the rows of its `lookups`."""
        import tensorflow as tf

        numbers = range(len(self.members)) if replicas is None else replicas
        members = [self.members[number] for number in numbers]
        held: list[dict[Key, Any]] = [{} for _ in members]
        for key, server in self.servers.items():
            for of_replica, value in zip(held, server.pull(members), strict=True):
                of_replica[key] = value
        for bucket in self.buckets:
            for of_replica, number in zip(held, numbers, strict=True):
                of_replica.update(zip(map(key_of, bucket.shards), bucket.pull(number), strict=True))
        values: list[list[Any]] = [[] for _ in members]
        for shards in self.layout:
            if shards[0].variable.sparse:
                for of_values, rows in zip(values, self._pull_rows(shards, lookups, numbers), strict=True):
                    of_values.append(rows)
                continue
            for member, of_replica, of_values in zip(members, held, values, strict=True):
                with tf.device(member.device):
                    parts = [of_replica[key_of(shard)] for shard in shards]
                    of_values.append(tf.concat(parts, shards[0].axis) if len(parts) > 1 else parts[0])
        return values

    def push(self, results: Sequence[Results], lookups: Sequence[Lookups]) -> list[Update]:
        """Hand every gradient to its synchronizer; what is reduced when follows from the data alone."""
        updates: list[Update] = []
        parts: list[dict[Key, Any]] = [{} for _ in self.devices]
        for shards in self.layout:
            if shards[0].variable.sparse:
                updates += self._push_rows(shards, results, lookups)
            else:
                for device, of_replica, result in zip(self.devices, parts, results, strict=True):
                    of_replica.update(split_gradient(shards, result, device))
        for key, server in self.servers.items():
            updates += server.push([of_replica[key] for of_replica in parts])
        for bucket in self.buckets:
            updates += bucket.push([[of_replica[key_of(shard)] for shard in bucket.shards] for of_replica in parts])
        return updates

    def begin(self) -> None:
        """Begin a step; called while it is traced, before updates are made."""
        for scalars in self.scalars.values():
            scalars.begin()

    def apply(self, updates: Sequence[Update], correction: Correction) -> None:
        """Make the updates of a step, and remember what the next one needs."""
        for update in updates:
            update.apply(correction)
        for scalars in self.scalars.values():
            scalars.advance(correction)
        for memory in self.memories():
            memory.advance(correction)

    def memories(self) -> list[Memory]:
        """What compressors remember between steps."""
        of_servers = [memory for each in self.servers.values() for memory in each.exchange.memories]
        return of_servers + [memory for each in self.buckets for memory in each.exchange.memories]

    def _scalars_on(self, device: str, dtype: str) -> Scalars:
        if (device, dtype) not in self.scalars:
            self.scalars[device, dtype] = Scalars(self._optimizers[dtype], device)
        return self.scalars[device, dtype]

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
        shards = [shard for of_variable in self.layout for shard in of_variable]
        for shard in on_servers(shards):
            server = Member.of(self._placement, getattr(shard.synchronizer, "device", ""))
            scalars, initial = (
                self._scalars_on(server.device, shard.variable.dtype),
                self._initial(shard, server.device),
            )
            if shard.variable.sparse:
                self.sparse[key_of(shard)] = SparseServer(shard, scalars, initial, self.devices)
            else:
                self.servers[key_of(shard)] = DenseServer(ServerPlace(shard, server, self.members), scalars, initial)
        for group in buckets(shards):
            on_replicas = [self._scalars_on(device, group[0].variable.dtype) for device in self.devices]
            initial = [[self._initial(shard, device) for shard in group] for device in self.devices]
            self.buckets.append(Bucket(BucketPlace(group, self.members), on_replicas, initial))
        for shard in shards:
            if shard.variable.sparse and isinstance(shard.synchronizer, AllReduce):
                on_replicas = [self._scalars_on(device, shard.variable.dtype) for device in self.devices]
                initial = [self._initial(shard, device) for device in self.devices]
                self.sparse[key_of(shard)] = GatheredRows(shard, on_replicas, initial)

    def wait(self) -> None:
        """Assigning to a variable on a worker only queues it there, and a function that runs next may come first."""
        import tensorflow as tf

        for device in sorted({*self.devices, *(device for device, _ in self.scalars)}):
            with tf.device(device):
                tf.zeros([]).numpy()  # queued behind the rest, and waited for

    def _pull_rows(self, shards: Sequence[Shard], lookups: Sequence[Lookups], numbers: Sequence[int]) -> list[Any]:
        import tensorflow as tf

        rows = []
        for found, number in zip(lookups, numbers, strict=True):
            device = self.devices[number]
            ids = _split_ids(shards, found.ids[shards[0].variable_index], device)
            parts = [self.sparse[key_of(shard)].pull(number, ids[shard.index]) for shard in shards]
            with tf.device(device):
                rows.append(tf.concat(parts, 0) if len(parts) > 1 else parts[0])
        return rows

    def _push_rows(
        self, shards: Sequence[Shard], results: Sequence[Results], lookups: Sequence[Lookups]
    ) -> list[Update]:
        parts = [
            split_rows(shards, found, result, device)
            for found, result, device in zip(lookups, results, self.devices, strict=True)
        ]
        updates = []
        for shard in shards:
            ids, rows = zip(*(of_replica[shard.index] for of_replica in parts), strict=True)
            updates += self.sparse[key_of(shard)].push(ids, rows)
        return updates


def key_of(shard: Shard) -> Key:
    return shard.variable_index, shard.index


def split_gradient(shards: Sequence[Shard], result: Results, device: str) -> dict[Key, Any]:
    """A dense gradient's pieces, by shard; its factors where the synchronizer sends those."""
    import tensorflow as tf

    number = shards[0].variable_index
    if isinstance(shards[0].synchronizer.compressor, SufficientFactors):
        return {key_of(shards[0]): FactorPair(*result.factors[number])}
    gradient = result.gradients[number]
    with tf.device(device):
        pieces = tf.split(gradient, [shard.size for shard in shards], shards[0].axis) if len(shards) > 1 else [gradient]
        return {key_of(shard): piece for shard, piece in zip(shards, pieces, strict=True)}


def _split_ids(shards: Sequence[Shard], ids: Any, device: str) -> list[Any]:
    """Sorted distinct row numbers, by shard and counted from each shard's first row."""
    import tensorflow as tf

    with tf.device(device):
        if len(shards) == 1:
            return [tf.identity(ids)]
        return [each - shard.start for shard, each in zip(shards, _cut(shards, ids, ids), strict=True)]


def split_rows(shards: Sequence[Shard], found: Lookups, result: Results, device: str) -> list[tuple[Any, Any]]:
    """Of every shard of a sparse variable: the row numbers, from the shard's first row on, and their gradients."""
    import tensorflow as tf

    number = shards[0].variable_index
    ids, rows = found.ids[number], result.gradients[number]
    with tf.device(device):
        parts = _cut(shards, ids, rows) if len(shards) > 1 else [rows]
    return list(zip(_split_ids(shards, ids, device), parts, strict=True))


def _cut(shards: Sequence[Shard], ids: Any, tensor: Any) -> list[Any]:
    """Cut `tensor` along axis 0 where the sorted `ids` pass from one shard to the next."""
    import tensorflow as tf

    bounds = tf.searchsorted(ids, tf.constant([shard.start for shard in shards[1:]], ids.dtype))
    ends = tf.concat([bounds, [tf.size(ids)]], 0)
    begins = tf.concat([[0], bounds], 0)
    return [tensor[begins[index] : ends[index]] for index in range(len(shards))]
