"""Timing what moves between devices over TensorFlow's own transport: flows, hops, messages and copies."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

from autosync.engine.placement import Placement
from autosync.errors import ClusterError

LARGEST_FLOW_BYTES = 32 << 20
"""A source holds one array of this size, of which a flow sends the beginning."""

ELEMENT_BYTES = 4


@final
class Transfers:
    """Builds functions that move data between a cluster's devices, and times calls of them in seconds.

    One function runs on all devices it names, as a training step does. Its only result is a scalar on the device
    beside the client: TensorFlow hands results over through the client's own server, which other machines cannot reach.
    The first call of what is built also sets it up on the workers, so it should not count.
    Calls raise `ClusterError` when a worker cannot be reached.
    """

    def __init__(self, placement: Placement) -> None:
        """The client is taken to run beside the first placed device, as it does in a set of workers."""
        self._placement = placement
        self._beside_client = next(iter(placement.names.values()))
        self._payloads: dict[str, Any] = {}
        self._lock = threading.Lock()

    def flows(self, pairs: Sequence[tuple[str, str]]) -> Callable[[Sequence[int]], float]:
        """A call sends, along every (source device, target device) at once, as many bytes as it is told for each."""
        import tensorflow as tf

        sources = [self._placement.name(source) for source, _ in pairs]
        targets = [self._placement.name(target) for _, target in pairs]
        payloads = [self._payload(source) for source in sources]
        # What is sent is a slice from the start, which TensorFlow does not copy. Its length is a variable beside it: an
        # argument would have to be fetched from the client's server.
        lengths = [_variable(source, tf.constant([1], tf.int32)) for source in sources]

        def send() -> Any:
            arrived = []
            for source, target, payload, length in zip(sources, targets, payloads, lengths, strict=True):
                with tf.device(source):
                    sent = tf.slice(payload.read_value(), [0], length.read_value())
                with tf.device(target):
                    arrived.append(sent[0])
            return arrived

        timed = self._timed(send)

        def call(flow_bytes: Sequence[int]) -> float:
            for source, length, size in zip(sources, lengths, flow_bytes, strict=True):
                elements = min(max(size, ELEMENT_BYTES), LARGEST_FLOW_BYTES) // ELEMENT_BYTES
                with tf.device(source):
                    _reached(partial(length.assign, [elements]))
            for length in lengths:  # assigning only queues it, and nothing holds the function back until it is done
                _reached(length.numpy)
            return timed()

        return call

    def hops(self, source: str, target: str, count: int) -> Callable[[], float]:
        """A call sends a scalar from `source` to `target` and back and so on, `count` times one after the other."""
        import tensorflow as tf

        ends = self._placement.name(source), self._placement.name(target)
        scalars = [_variable(end, tf.constant(0.0)) for end in ends]

        def send() -> Any:
            with tf.device(ends[0]):
                value = scalars[0].read_value()
            for hop in range(count):
                with tf.device(ends[(hop + 1) % 2]):
                    value = value + 1.0
            with tf.device(ends[1]):  # takes part without hops too, so that calls differ by the hops alone
                return [value, scalars[1].read_value()]

        return self._timed(send)

    def messages(self, source: str, target: str, count: int) -> Callable[[], float]:
        """A call sends `count` scalars from `source` to `target`, all at once and each by itself."""
        import tensorflow as tf

        first, second = self._placement.name(source), self._placement.name(target)
        scalar = _variable(first, tf.constant(0.0))

        def send() -> Any:
            with tf.device(first):
                value = scalar.read_value()
                sent = [value + float(index) for index in range(count)]
            with tf.device(second):
                return [tf.add_n([each + 1.0 for each in sent])]

        return self._timed(send)

    def copies(self, device: str, array_bytes: int, count: int) -> Callable[[], float]:
        """A call copies an array `count` times, one after the other, into fresh memory of `device`."""
        import tensorflow as tf

        placed = self._placement.name(device)
        array = _variable(placed, tf.constant([array_bytes // ELEMENT_BYTES]), tf.zeros)

        def copy() -> Any:
            with tf.device(placed):
                value = array.read_value()
                for _ in range(count):
                    value = tf.raw_ops.DeepCopy(x=value)
                return [value[0]]

        return self._timed(copy)

    def _payload(self, device: str) -> Any:
        import tensorflow as tf

        with self._lock:
            if device not in self._payloads:
                elements = tf.constant([LARGEST_FLOW_BYTES // ELEMENT_BYTES])
                self._payloads[device] = _variable(device, elements, tf.zeros)
            return self._payloads[device]

    def _timed(self, work: Callable[[], Sequence[Any]]) -> Callable[[], float]:
        """Seconds from calling `work` until its results are known here."""
        import tensorflow as tf

        beside_client = self._beside_client

        @tf.function(autograph=False)
        def function() -> Any:
            results = work()
            with tf.device(beside_client):
                return tf.add_n(results)

        def seconds() -> float:
            begin = time.perf_counter()
            with tf.device(beside_client):
                _reached(lambda: float(function()))
            return time.perf_counter() - begin

        return seconds


def _variable(device: str, initial: Any, make: Callable[[Any], Any] | None = None) -> Any:
    """A variable on `device` that holds `initial`, or what `make` makes of it there."""
    import tensorflow as tf

    def made() -> Any:
        variable = tf.Variable(make(initial) if make else initial, trainable=False)
        # Making it only queues its first value. A function was seen to get a tensor of shape [0], as an empty one is.
        tf.raw_ops.VarIsInitializedOp(resource=variable.handle).numpy()
        return variable

    with tf.device(device):
        return _reached(made)


def _reached(work: Callable[[], Any]) -> Any:
    import tensorflow as tf

    try:
        return work()
    except tf.errors.OpError as error:
        reason = (error.message.strip().splitlines() or ["no reason given"])[0].rpartition("}} ")[2]
        raise ClusterError(f"A worker cannot be reached ({type(error).__name__}: {reason}).") from None
