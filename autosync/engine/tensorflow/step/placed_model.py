"""A placed strategy: every block of values on its device, and the way of gradients to the values."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

import tensorflow as tf

from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.state import Correction, Optimizer, RowTable, Scalars, ValueBlock
from autosync.engine.tensorflow.step.replica import CompiledModel, Lookups, Replica, Results
from autosync.engine.tensorflow.step.splitting import Key, key_of, split_gradient, split_ids, split_rows
from autosync.engine.tensorflow.sync.bucket import Bucket, Bundle
from autosync.engine.tensorflow.sync.exchange import BucketPlace, ServerPlace
from autosync.engine.tensorflow.sync.gathered_rows import GatheredRows
from autosync.engine.tensorflow.sync.member import Member, Members
from autosync.engine.tensorflow.sync.memory import ReplicaMemory
from autosync.engine.tensorflow.sync.parameter_server import DenseServer, SparseServer
from autosync.engine.tensorflow.sync.stream import stream
from autosync.engine.tensorflow.sync.topk_levels import TopKLevels
from autosync.engine.tensorflow.sync.update import Update
from autosync.layout.fusion import Layout, as_ready, bundles
from autosync.layout.shards import Shard
from autosync.spec import ParameterServer, Strategy, SufficientFactors


@final
class Start:
    """The initial values of variables and state, copied to a device once and kept there for all strategies."""

    def __init__(self, model: CompiledModel) -> None:
        self._captured = model.captured
        self._values: dict[str, list[Any]] = {}
        self._state: dict[str, list[Any]] = {}
        self._metrics: dict[str, list[Any]] = {}

    def values(self, device: str) -> list[Any]:
        """Return the initial values of variables as tensors on `device`."""
        return self._copy_to(self._values, self._captured.initial_values, device)

    def state(self, device: str) -> list[Any]:
        return self._copy_to(self._state, self._captured.initial_state, device)

    def metrics(self, device: str) -> list[Any]:
        return self._copy_to(self._metrics, self._captured.initial_metrics, device)

    @staticmethod
    def _copy_to(placed: dict[str, list[Any]], arrays: Sequence[Any], device: str) -> list[Any]:
        if device not in placed:
            with tf.device(device):
                placed[device] = [tf.identity(tf.constant(array)) for array in arrays]
        return placed[device]


@final
class Placed:
    """The variables, slots and replicas of a strategy; pulls values for replicas and pushes their gradients."""

    def __init__(
        self,
        model: CompiledModel,
        optimizers: Mapping[str, Optimizer],
        strategy: Strategy,
        placement: Placement,
        start: Start,
    ) -> None:
        self.strategy = strategy
        self.members = Members.of(placement, strategy.replicas)
        self.devices = [member.device for member in self.members]
        self.layout = Layout.of(strategy, model.captured.spec)
        factored = frozenset(
            shards[0].slice.variable_index
            for shards in self.layout.of_variables
            if isinstance(shards[0].synchronizer.compressor, SufficientFactors)
        )
        self.replicas = [
            Replica(model, number, device, start.state(device), factored, start.metrics(device))
            for number, device in enumerate(self.devices)
        ]
        self.servers: list[DenseServer] = []
        self.buckets: list[Bucket] = []
        self.bundles: list[Bundle] = []
        self.sparse: dict[Key, SparseServer | GatheredRows] = {}
        self.scalars: dict[tuple[str, str], Scalars] = {}
        self.levels = TopKLevels(strategy.discipline.fidelity)
        self._optimizers = optimizers
        self._placement = placement
        self._start = start
        self._place()
        self.wait()

    def pull(self, lookups: Sequence[Lookups], replicas: Sequence[int] | None = None) -> list[list[Any]]:
        """Return the value of every variable for each of `replicas`: whole, or only the rows of its `lookups`.

        None stands for all replicas, in a step that has begun.
        """
        numbers = range(len(self.members)) if replicas is None else replicas
        members = [self.members[number] for number in numbers]
        held: list[dict[Key, Any]] = [{} for _ in members]
        for of_replica, number in zip(held, numbers, strict=True):
            for server in self.servers:
                of_replica.update(zip(map(key_of, server.shards), server.pull(number), strict=True))
            for bundle in self.bundles:
                pulled = bundle.pull(number, begun=replicas is None)
                of_replica.update(zip(map(key_of, bundle.shards), pulled, strict=True))
        values: list[list[Any]] = [[] for _ in members]
        for shards in self.layout.of_variables:
            if shards[0].variable.sparse:
                for of_values, rows in zip(values, self._pull_rows(shards, lookups, numbers), strict=True):
                    of_values.append(rows)
                continue
            for member, of_replica, of_values in zip(members, held, values, strict=True):
                with tf.device(member.device):
                    parts = [of_replica[key_of(shard)] for shard in shards]
                    of_values.append(tf.concat(parts, shards[0].slice.axis) if len(parts) > 1 else parts[0])
        return values

    def push(self, results: Sequence[Results], lookups: Sequence[Lookups], at_once: bool = False) -> list[Update]:
        """Pass every gradient to its synchronizer and return the updates. Data dependencies alone decide the order.

        With `at_once`, servers apply their updates as gradients arrive, and these updates are not returned. This needs
        a model without a rule over all gradients.
        """
        updates: list[Update] = []
        for shards in self.layout.of_variables:
            if shards[0].variable.sparse:
                updates += self._push_rows(shards, results, lookups)
        parts = self._dense_parts(results)
        if at_once:
            stream(self.servers, [_of_holder(server.shards, parts) for server in self.servers])
        for server in () if at_once else self.servers:
            updates += server.push(_of_holder(server.shards, parts))
        means = {bucket: bucket.exchange.means(_of_holder(bucket.shards, parts)) for bucket in self.buckets}
        for bundle in self.bundles:
            updates += bundle.updates([means[bucket] for bucket in bundle.buckets])
        return updates

    def apart(self, results: Sequence[Results], lookups: Sequence[Lookups]) -> list[Update]:
        """Return an update of every replica's own values by the replica's own gradient, without any messages.

        All variables must be all-reduced, so that every replica holds values.
        """
        parts = self._dense_parts(results)
        updates = []
        for bundle in self.bundles:
            updates += bundle.updates([bucket.flat(_of_holder(bucket.shards, parts)) for bucket in bundle.buckets])
        for shards in self.layout.of_variables:
            if shards[0].variable.sparse:
                for shard, ids, rows in self._row_parts(shards, results, lookups):
                    table = self.sparse[key_of(shard)]
                    assert isinstance(table, GatheredRows)
                    updates += table.apart(ids, rows)
        return updates

    def value_means(self) -> list[tuple[ValueBlock | RowTable, Any]]:
        """Return everything in `replica_values`, in the same order, each with the mean of all replicas' values."""
        holders: list[Bundle | GatheredRows] = [*self.bundles, *self._row_gathers()]
        return [pair for holder in holders for pair in holder.value_means()]

    def replica_values(self) -> list[ValueBlock | RowTable]:
        """Return every replica's own values: all blocks and tables that replicas hold."""
        blocks = [block for bundle in self.bundles for block in bundle.blocks]
        return [*blocks, *(table for rows in self._row_gathers() for table in rows.tables)]

    def _row_gathers(self) -> list[GatheredRows]:
        return [sparse for sparse in self.sparse.values() if isinstance(sparse, GatheredRows)]

    def begin(self) -> None:
        """Begin a step. Call this while the step is traced, before values are pulled and updates are applied."""
        for scalars in self.scalars.values():
            scalars.begin()
        for bundle in self.bundles:
            bundle.begin()
        for memory in self.memories():
            memory.begin()

    def apply(self, updates: Sequence[Update], correction: Correction) -> None:
        """Apply the updates of a step, and store scalars and memories for the next step."""
        for update in updates:
            update.apply(correction)
        for scalars in self.scalars.values():
            scalars.advance(correction)
        for memory in self.memories():
            memory.advance(correction)

    def memories(self) -> list[ReplicaMemory]:
        """Return the memories of compressors, in the order of the saved state."""
        of_servers = [memory for server in self.servers for memory in server.exchange.memories]
        return of_servers + [memory for bucket in self.buckets for memory in bucket.exchange.memories]

    def _scalars_on(self, device: str, dtype: str) -> Scalars:
        if (device, dtype) not in self.scalars:
            self.scalars[device, dtype] = Scalars(self._optimizers[dtype], device)
        return self.scalars[device, dtype]

    def _initial(self, shard: Shard, device: str) -> Any:
        """Return the shard's initial value as a tensor on `device`."""
        value = self._start.values(device)[shard.slice.variable_index]
        if not shard.shape or shard.slice.size == shard.variable.shape[shard.slice.axis]:
            return value
        with tf.device(device):
            begin = [0] * len(shard.shape)
            begin[shard.slice.axis] = shard.slice.start
            return tf.slice(value, begin, shard.shape)

    def _initial_flat(self, shards: Sequence[Shard], device: str) -> Any:
        """Return the shards' initial values end to end, as a flat tensor on `device`."""
        with tf.device(device):
            parts = [tf.reshape(self._initial(shard, device), [-1]) for shard in shards]
            return tf.concat(parts, 0) if len(parts) > 1 else parts[0]

    def _server_of(self, shard: Shard) -> Member:
        assert isinstance(shard.synchronizer, ParameterServer)
        return Member.of(self._placement, shard.synchronizer.device)

    def _place(self) -> None:
        """Create every block of values and optimizer slots on its device."""
        alone = self.layout.alone
        for parcel in as_ready([*self.layout.parcels, *([shard] for shard in alone if not shard.variable.sparse)]):
            place = ServerPlace(parcel, self._server_of(parcel[0]), self.members)
            scalars = self._scalars_on(place.server.device, parcel[0].variable.dtype)
            self.servers.append(DenseServer(place, scalars, functools.partial(self._initial_flat, parcel), self.levels))
        groups = as_ready(self.layout.buckets)
        self.buckets = [Bucket(BucketPlace(group, self.members), self.levels) for group in groups]
        for numbers in bundles(groups):
            held = [shard for number in numbers for shard in groups[number]]
            on_replicas = [self._scalars_on(device, held[0].variable.dtype) for device in self.devices]
            initial = [self._initial_flat(held, device) for device in self.devices]
            self.bundles.append(Bundle([self.buckets[number] for number in numbers], on_replicas, initial))
        for shard in alone:
            if shard.variable.sparse:
                self.sparse[key_of(shard)] = self._sparse(shard)

    def _sparse(self, shard: Shard) -> SparseServer | GatheredRows:
        if isinstance(shard.synchronizer, ParameterServer):
            scalars = self._scalars_on(self._server_of(shard).device, shard.variable.dtype)
            return SparseServer(shard, scalars, self._initial(shard, scalars.device), self.devices)
        on_replicas = [self._scalars_on(device, shard.variable.dtype) for device in self.devices]
        return GatheredRows(shard, self.members, on_replicas, [self._initial(shard, device) for device in self.devices])

    def wait(self) -> None:
        """Wait for assignments, because a worker only queues them, and the next function could run before them."""
        for device in sorted({*self.devices, *(device for device, _ in self.scalars)}):
            with tf.device(device):
                tf.zeros([]).numpy()  # queued behind the assignments, so its end is their end

    def _pull_rows(self, shards: Sequence[Shard], lookups: Sequence[Lookups], numbers: Sequence[int]) -> list[Any]:
        rows = []
        for of_replica, number in zip(lookups, numbers, strict=True):
            device = self.devices[number]
            ids = split_ids(shards, of_replica, device)
            parts = [self.sparse[key_of(shard)].pull(number, ids[shard.slice.index]) for shard in shards]
            with tf.device(device):
                rows.append(tf.concat(parts, 0) if len(parts) > 1 else parts[0])
        return rows

    def _dense_parts(self, results: Sequence[Results]) -> list[dict[Key, Any]]:
        """Return, by replica, the replica's gradient of every dense shard."""
        parts: list[dict[Key, Any]] = [{} for _ in self.devices]
        for shards in self.layout.of_variables:
            if not shards[0].variable.sparse:
                for device, of_replica, result in zip(self.devices, parts, results, strict=True):
                    of_replica.update(split_gradient(shards, result, device))
        return parts

    def _push_rows(
        self, shards: Sequence[Shard], results: Sequence[Results], lookups: Sequence[Lookups]
    ) -> list[Update]:
        updates = []
        for shard, ids, rows in self._row_parts(shards, results, lookups):
            updates += self.sparse[key_of(shard)].push(ids, rows)
        return updates

    def _row_parts(
        self, shards: Sequence[Shard], results: Sequence[Results], lookups: Sequence[Lookups]
    ) -> Iterator[tuple[Shard, tuple[Any, ...], tuple[Any, ...]]]:
        """Yield every shard of a sparse variable with the rows that each replica touches, and their gradients."""
        parts = [
            split_rows(shards, touched, result, device)
            for touched, result, device in zip(lookups, results, self.devices, strict=True)
        ]
        for shard in shards:
            ids, rows = zip(*(of_replica[shard.slice.index] for of_replica in parts), strict=True)
            yield shard, ids, rows


def _of_holder(shards: Sequence[Shard], gradients: Sequence[Mapping[Key, Any]]) -> list[list[Any]]:
    """Return `[r][s]`: replica r's gradient of shard s."""
    return [[of_replica[key_of(shard)] for shard in shards] for of_replica in gradients]
