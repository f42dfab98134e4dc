"""Gradients that wait for those of other replicas, and the clock that says who may begin which stale step."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, final

from autosync.engine.step.placed import Placed
from autosync.engine.step.replica import Lookups, Results, id_dtype
from autosync.engine.step.splitting import Key, key_of, split_gradient, split_rows
from autosync.engine.step.turnstile import Turnstile
from autosync.engine.sync.member import Member
from autosync.engine.sync.parameter_server import SparseServer


@final
class Pending:
    """One replica's gradients of one step, where they wait for those of the others.

    That is beside the server, or on the replica's own node where the gradients of its replicas are added up first.
    """

    def __init__(self, placed: Placed, number: int) -> None:
        self._number = number
        self.members: dict[Key, Member] = {}
        self._held: dict[Key, tuple[Any, ...]] = {}
        own = placed.members[number]
        shares_node = sum(member.node == own.node for member in placed.members) > 1
        for server in placed.servers:
            key = key_of(server.shards[0])
            on_own_node = shares_node and own.node != server.member.node
            self.members[key] = replace(own, device=own.gateway if on_own_node else server.member.device)
            elements = sum(shard.elements for shard in server.shards)
            self._held[key] = (self._variable(key, (elements,), server.shards[0].variable.dtype),)
        for key, sparse in placed.sparse.items():
            assert isinstance(sparse, SparseServer)  # a strategy with staleness has parameter servers only
            self.members[key] = replace(own, device=sparse.rows.device)
            dtype, row = sparse.shard.variable.dtype, sparse.shard.shape[1:]
            self._held[key] = (
                self._variable(key, (None,), id_dtype(sparse.shard.variable)),
                self._variable(key, (None, *row), dtype),
            )

    def _variable(self, key: Key, shape: tuple[int | None, ...], dtype: str) -> Any:
        import tensorflow as tf

        with tf.device(self.members[key].device):
            start = tf.zeros([size or 0 for size in shape], dtype)
            return tf.Variable(start, trainable=False, shape=tf.TensorShape(shape))

    def put(self, placed: Placed, found: Lookups, result: Results) -> None:
        """Bring the gradients here; called while the replica's function is traced."""
        import tensorflow as tf

        device = placed.devices[self._number]
        dense: dict[Key, Any] = {}
        for shards in placed.layout.of_variables:
            if not shards[0].variable.sparse:
                dense |= split_gradient(shards, result, device)
                continue
            for shard, tensors in zip(shards, split_rows(shards, found, result, device), strict=True):
                self._assign(key_of(shard), tensors)
        for server in placed.servers:
            keys = [key_of(shard) for shard in server.shards]
            joined = server.joined(self._number, [dense[key] for key in keys])
            with tf.device(device):
                self._assign(keys[0], (tf.reshape(joined, [-1]),))

    def _assign(self, key: Key, tensors: Sequence[Any]) -> None:
        import tensorflow as tf

        with tf.device(self.members[key].device):
            for variable, tensor in zip(self._held[key], tensors, strict=True):
                variable.assign(tensor)

    def gradient(self, key: Key) -> Any:
        """The gradient, flat, of dense shards that travel together; `key` is the first one's."""
        return self.rows(key)[0]

    def rows(self, key: Key) -> tuple[Any, ...]:
        """A sparse shard's row numbers and gradients."""
        import tensorflow as tf

        with tf.device(self.members[key].device):
            return tuple(variable.read_value() for variable in self._held[key])


@final
class StaleClock(Turnstile):
    """Steps are numbered from 0; every worker makes each of them once, in order.

    A step is *applied* once all workers' gradients of it are there. A worker may begin step c when c has been asked for
    and is at most `staleness` ahead of the first step not yet applied (stale-synchronous parallel, Ho et al. 2013).
    It is safe to call from many threads.
    """

    def __init__(self, workers: int, staleness: int) -> None:
        super().__init__()
        self.staleness = staleness
        self.lags: Counter[int] = Counter()
        """How often workers began a step, by how many steps it was ahead of the first one not yet applied."""
        self._next = [0] * workers
        self._finished = [0] * workers
        self._asked = self._applied = 0
        self._applying = threading.Lock()

    @property
    def applied(self) -> int:
        """How many steps have been applied."""
        return self._applied

    @property
    def asked(self) -> int:
        """How many steps have been asked for."""
        return self._asked

    def ask(self) -> None:
        """Ask for one more step."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()

    def begin(self, worker: int) -> int | None:
        """Wait until `worker` may begin its next step; the number of it, or None when there will be no more."""
        with self._changed:
            step = self._next[worker]
            self._changed.wait_for(lambda: self._ended() or (step < self._asked and step <= self._limit()))
            if self._ended():
                return None
            self._next[worker] += 1
            self.lags[step - self._applied] += 1
            return step

    def finish(self, worker: int, apply: Callable[[int], None]) -> None:
        """Note that `worker` has pushed its gradients; `apply(step)` is called for every step that this completes.

        Steps are applied one after the other, by the thread that completes them, while others go on.
        """
        with self._changed:
            self._finished[worker] += 1
            complete = min(self._finished)
        with self._applying:
            while self._applied < complete:
                apply(self._applied)
                with self._changed:
                    self._applied += 1
                    self._changed.notify_all()

    def wait(self, behind: int) -> None:
        """Wait until no more than `behind` of the steps asked for are not applied. Raises what made a worker fail."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended() or self._asked - self._applied <= behind)
            self._tell_failure()

    def _limit(self) -> int:
        return self._applied + self.staleness
