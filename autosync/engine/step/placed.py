"""A strategy in place: every block of values on its device, and the gradients' way to them."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

from autosync.engine.placement import Placement
from autosync.engine.state import Block, Correction, Optimizer, Rows, Scalars
from autosync.engine.step.replica import CompiledModel, Lookups, Replica, Results
from autosync.engine.step.splitting import Key, key_of, split_gradient, split_ids, split_rows
from autosync.engine.sync.bucket import Bucket, Bundle
from autosync.engine.sync.exchange import BucketPlace, ServerPlace
from autosync.engine.sync.gathered_rows import GatheredRows
from autosync.engine.sync.ladder import Ladder
from autosync.engine.sync.member import Member, Members
from autosync.engine.sync.memory import Memory
from autosync.engine.sync.parameter_server import DenseServer, SparseServer
from autosync.engine.sync.stream import stream
from autosync.engine.sync.update import Update
from autosync.layout.shards import Shard
from autosync.layout.together import Layout, as_ready, bundles
from autosync.spec import ParameterServer, Strategy, SufficientFactors


@final
class Start:
    """Initial values of variables and state, copied to a device once and kept there for every strategy."""

    def __init__(self, model: CompiledModel) -> None:
        self._captured = model.captured
        self._values: dict[str, list[Any]] = {}
        self._state: dict[str, list[Any]] = {}
        self._metrics: dict[str, list[Any]] = {}

    def values(self, device: str) -> list[Any]:
        """Initial variable values as tensors on `device`."""
        return self._placed(self._values, self._captured.initial_values, device)

    def state(self, device: str) -> list[Any]:
        return self._placed(self._state, self._captured.initial_state, device)

    def metrics(self, device: str) -> list[Any]:
        return self._placed(self._metrics, self._captured.initial_metrics, device)

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
        self.ladder = Ladder(strategy.discipline.fidelity)
        self._optimizers = optimizers
        self._placement = placement
        self._start = start
        self._place()
        self.wait()

    def pull(self, lookups: Sequence[Lookups], replicas: Sequence[int] | None = None) -> list[list[Any]]:
        """The value of every variable, for each of `replicas`: whole, or the rows of its `lookups`.

        If `replicas` is None, for all, in a step that has begun.
        """
        import tensorflow as tf

        numbers = range(len(self.members)) if replicas is None else replicas
        members = [self.members[number] for number in numbers]
        held: list[dict[Key, Any]] = [{} for _ in members]
        for of_replica, number in zip(held, numbers, strict=True):
            for server in self.servers:
                of_replica.update(zip(map(key_of, server.shards), server.pull(number), strict=True))
            for bundle in self.bundles:
                own = bundle.pull(number, begun=replicas is None)
                of_replica.update(zip(map(key_of, bundle.shards), own, strict=True))
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
        """Hand every gradient to its synchronizer; when each is reduced follows from the data alone.

        Returns the updates to be made. With `at_once`, where they ask nothing of each other, servers make theirs as
        gradients come in.
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
        """An update of every replica's own values by its own gradient; nothing is sent.

        Only where all is all-reduced, so that every replica holds values.
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

    def value_means(self) -> list[tuple[Block | Rows, Any]]:
        """Everything that replicas hold, in the order of `replicated`, and the mean of all replicas' values for it."""
        holders: list[Bundle | GatheredRows] = [*self.bundles, *self._gathered_rows()]
        return [pair for holder in holders for pair in holder.value_means()]

    def replicated(self) -> list[Block | Rows]:
        """Everything that replicas hold, each its own."""
        blocks = [block for bundle in self.bundles for block in bundle.blocks]
        return [*blocks, *(table for each in self._gathered_rows() for table in each.tables)]

    def _gathered_rows(self) -> list[GatheredRows]:
        return [each for each in self.sparse.values() if isinstance(each, GatheredRows)]

    def begin(self) -> None:
        """Begin a step; called while it is traced, before values are pulled and updates are made."""
        for scalars in self.scalars.values():
            scalars.begin()
        for bundle in self.bundles:
            bundle.begin()
        for memory in self.memories():
            memory.begin()

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
        of_servers = [memory for each in self.servers for memory in each.exchange.memories]
        return of_servers + [memory for each in self.buckets for memory in each.exchange.memories]

    def _scalars_on(self, device: str, dtype: str) -> Scalars:
        if (device, dtype) not in self.scalars:
            self.scalars[device, dtype] = Scalars(self._optimizers[dtype], device)
        return self.scalars[device, dtype]

    def _initial(self, shard: Shard, device: str) -> Any:
        """The shard's initial value as a tensor on `device`."""
        import tensorflow as tf

        value = self._start.values(device)[shard.slice.variable_index]
        if not shard.shape or shard.slice.size == shard.variable.shape[shard.slice.axis]:
            return value
        with tf.device(device):
            begin = [0] * len(shard.shape)
            begin[shard.slice.axis] = shard.slice.start
            return tf.slice(value, begin, shard.shape)

    def _initial_flat(self, shards: Sequence[Shard], device: str) -> Any:
        """The shards' initial values end to end, as a tensor on `device`."""
        import tensorflow as tf

        with tf.device(device):
            parts = [tf.reshape(self._initial(shard, device), [-1]) for shard in shards]
            return tf.concat(parts, 0) if len(parts) > 1 else parts[0]

    def _server_of(self, shard: Shard) -> Member:
        assert isinstance(shard.synchronizer, ParameterServer)
        return Member.of(self._placement, shard.synchronizer.device)

    def _place(self) -> None:
        """Create every block of values and optimizer slots on its device."""
        alone = self.layout.alone
        for parcel in as_ready([*self.layout.parcels, *([each] for each in alone if not each.variable.sparse)]):
            place = ServerPlace(parcel, self._server_of(parcel[0]), self.members)
            scalars = self._scalars_on(place.server.device, parcel[0].variable.dtype)
            self.servers.append(DenseServer(place, scalars, functools.partial(self._initial_flat, parcel), self.ladder))
        filled = as_ready(self.layout.buckets)
        self.buckets = [Bucket(BucketPlace(group, self.members), self.ladder) for group in filled]
        for numbers in bundles(filled):
            held = [shard for number in numbers for shard in filled[number]]
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
        return GatheredRows(shard, self.members, on_replicas, [self._initial(shard, each) for each in self.devices])

    def wait(self) -> None:
        """Wait for assignments: a worker only queues them, and a function that runs next may come before them."""
        import tensorflow as tf

        for device in sorted({*self.devices, *(device for device, _ in self.scalars)}):
            with tf.device(device):
                tf.zeros([]).numpy()  # queued behind the rest, and waited for

    def _pull_rows(self, shards: Sequence[Shard], lookups: Sequence[Lookups], numbers: Sequence[int]) -> list[Any]:
        import tensorflow as tf

        rows = []
        for found, number in zip(lookups, numbers, strict=True):
            device = self.devices[number]
            ids = split_ids(shards, found, device)
            parts = [self.sparse[key_of(shard)].pull(number, ids[shard.slice.index]) for shard in shards]
            with tf.device(device):
                rows.append(tf.concat(parts, 0) if len(parts) > 1 else parts[0])
        return rows

    def _dense_parts(self, results: Sequence[Results]) -> list[dict[Key, Any]]:
        """By replica, its gradient of every dense shard."""
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
        """Every shard of a sparse variable with the rows that each replica touches, and their gradients."""
        parts = [
            split_rows(shards, found, result, device)
            for found, result, device in zip(lookups, results, self.devices, strict=True)
        ]
        for shard in shards:
            ids, rows = zip(*(of_replica[shard.slice.index] for of_replica in parts), strict=True)
            yield shard, ids, rows


def _of_holder(shards: Sequence[Shard], gradients: Sequence[Mapping[Key, Any]]) -> list[list[Any]]:
    """`[r][s]`: replica r's gradient of shard s."""
    return [[of_replica[key_of(shard)] for shard in shards] for of_replica in gradients]
