"""Times transfers between devices over TensorFlow's own transport: flows, hops, messages and copies."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

import tensorflow as tf

from autosync.engine.tensorflow.placement import Placement
from autosync.errors import ClusterError

LARGEST_FLOW_BYTES = 32 << 20
"""The size of the one array that each source holds; a flow sends the beginning of the array."""

ELEMENT_BYTES = 4


@final
class Transfers:
    """Builds functions that move data between a cluster's devices, and times their calls in seconds.

    Like a training step, one function runs on all devices it names. Its only result is a scalar on the client's device,
    because TensorFlow hands results over through the client's own server, which other machines cannot reach.
    The first call also sets the function up on the workers, so do not count it.
    Calls raise `ClusterError` if a worker cannot be reached.
    """

    def __init__(self, placement: Placement) -> None:
        """The client is assumed to run on the machine of the first placed device, as in a set of workers."""
        self._placement = placement
        self._client_device = next(iter(placement.names.values()))
        self._payloads: dict[str, Any] = {}
        self._lock = threading.Lock()

    def flows(self, pairs: Sequence[tuple[str, str]]) -> Callable[[Sequence[int]], float]:
        """A call sends the given numbers of bytes, one a (source device, target device), along all pairs at once."""
        sources = [self._placement.name(source) for source, _ in pairs]
        targets = [self._placement.name(target) for _, target in pairs]
        payloads = [self._payload(source) for source in sources]
        # The payload is a slice from the start of the array, which TensorFlow does not copy. The length of the slice is
        # a variable on the source, because a worker would have to fetch an argument from the client's server.
        lengths = [_variable(source, tf.constant([1], tf.int32)) for source in sources]

        def send() -> Any:
            arrived = []
            for source, target, payload, length in zip(sources, targets, payloads, lengths, strict=True):
                with tf.device(source):
                    sent = tf.slice(payload.read_value(), [0], length.read_value())
                with tf.device(target):
                    arrived.append(sent[0])
            return arrived

        timed = self._timer(send)

        def call(flow_bytes: Sequence[int]) -> float:
            for source, length, size in zip(sources, lengths, flow_bytes, strict=True):
                elements = min(max(size, ELEMENT_BYTES), LARGEST_FLOW_BYTES) // ELEMENT_BYTES
                with tf.device(source):
                    _run_on_worker(partial(length.assign, [elements]))
            for length in lengths:  # `assign` only queues the assignment, and the function does not wait for it
                _run_on_worker(length.numpy)
            return timed()

        return call

    def hops(self, source: str, target: str, count: int) -> Callable[[], float]:
        """A call sends a scalar back and forth between `source` and `target`, `count` hops one after another."""
        ends = self._placement.name(source), self._placement.name(target)
        scalars = [_variable(end, tf.constant(0.0)) for end in ends]

        def send() -> Any:
            with tf.device(ends[0]):
                value = scalars[0].read_value()
            for hop in range(count):
                with tf.device(ends[(hop + 1) % 2]):
                    value = value + 1.0
            with tf.device(ends[1]):  # takes part even without hops, so that calls differ only in the hops
                return [value, scalars[1].read_value()]

        return self._timer(send)

    def messages(self, source: str, target: str, count: int) -> Callable[[], float]:
        """A call sends `count` scalars from `source` to `target`, all at once and each as its own message."""
        first, second = self._placement.name(source), self._placement.name(target)
        scalar = _variable(first, tf.constant(0.0))

        def send() -> Any:
            with tf.device(first):
                value = scalar.read_value()
                sent = [value + float(index) for index in range(count)]
            with tf.device(second):
                return [tf.add_n([scalar + 1.0 for scalar in sent])]

        return self._timer(send)

    def copies(self, device: str, array_bytes: int, count: int) -> Callable[[], float]:
        """A call copies an array `count` times, one after another, into fresh memory of `device`."""
        placed = self._placement.name(device)
        array = _variable(placed, tf.constant([array_bytes // ELEMENT_BYTES]), tf.zeros)

        def copy() -> Any:
            with tf.device(placed):
                value = array.read_value()
                for _ in range(count):
                    value = tf.raw_ops.DeepCopy(x=value)
                return [value[0]]

        return self._timer(copy)

    def _payload(self, device: str) -> Any:
        with self._lock:
            if device not in self._payloads:
                elements = tf.constant([LARGEST_FLOW_BYTES // ELEMENT_BYTES])
                self._payloads[device] = _variable(device, elements, tf.zeros)
            return self._payloads[device]

    def _timer(self, work: Callable[[], Sequence[Any]]) -> Callable[[], float]:
        """Return a function that traces `work` once and returns the seconds from a call until the results are here."""
        client_device = self._client_device

        @tf.function(autograph=False)
        def function() -> Any:
            results = work()
            with tf.device(client_device):
                return tf.add_n(results)

        def seconds() -> float:
            begin = time.perf_counter()
            with tf.device(client_device):
                _run_on_worker(lambda: float(function()))
            return time.perf_counter() - begin

        return seconds


def _variable(device: str, initial: Any, make: Callable[[Any], Any] | None = None) -> Any:
    """Create a variable on `device` that holds `initial`, or the result of `make(initial)` there."""

    def create() -> Any:
        variable = tf.Variable(make(initial) if make else initial, trainable=False)
        # Creation only queues the first value. Without this wait, a function was seen to read a tensor of shape [0].
        tf.raw_ops.VarIsInitializedOp(resource=variable.handle).numpy()
        return variable

    with tf.device(device):
        return _run_on_worker(create)


def _run_on_worker(work: Callable[[], Any]) -> Any:
    """Return the result of `work`. Raises `ClusterError` if TensorFlow reports an error of a worker."""
    try:
        return work()
    except tf.errors.OpError as error:
        reason = (error.message.strip().splitlines() or ["no reason given"])[0].rpartition("}} ")[2]
        raise ClusterError(f"A worker cannot be reached ({type(error).__name__}: {reason}).") from None
