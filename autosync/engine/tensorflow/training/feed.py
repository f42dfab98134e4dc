"""Feeds batches from a worker's own Python code into a step, as tensors that are created on the worker.

An op `PyFunc` runs in the process of its device, and finds its function by a token in a table of that process. A worker
can therefore offer a function under a token, and a client that knows the token can place an op that calls the function.
"""

from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow as tf
from tensorflow.python.ops import script_ops

from autosync.engine.core.prefetch import Reader, ShardBatches
from autosync.engine.tensorflow.no_control_dependencies import run_independently


def offer_function(read: Callable[[], list[Any]]) -> str:
    """Offer `read` to ops in this process; return its token, which is valid as long as the caller keeps `read`."""
    token = script_ops._py_funcs.insert(read)  # public functions would also create an op in this process
    return token if isinstance(token, str) else token.decode()


def offer_array_function(give: Callable[..., Any]) -> str:
    """Offer `give`, which returns a NumPy array or a list of arrays, to ops in this process until the process ends.

    TensorFlow converts the results of a function to arrays, and for each result parses NumPy's version with regular
    expressions. In a function that only waits, this is two thirds of the work. TensorFlow does not convert the results
    of an eager function, so `give` is offered as one.
    """

    class ArrayFunction(script_ops.EagerFunc):  # type: ignore[misc]
        def __init__(self) -> None: ...

        def __call__(self, _device: Any, _token: Any, args: Any) -> Any:
            return give(*args)

    _KEPT.append(ArrayFunction())
    return offer_function(_KEPT[-1])


_KEPT: list[Any] = []
"""The functions offered until the process ends. TensorFlow's table holds only weak references to functions."""


@final
class ShardOffer:
    """The batches of one shard, in the form of `ShardBatches`, offered to ops in this process under `token`."""

    def __init__(self, read: Reader, shard: int, shards: int) -> None:
        self._batches = ShardBatches(read, shard, shards)
        self._kept = self._batches.next  # the table holds weak references, and every access creates a new bound method
        self.token = offer_function(self._kept)

    def close(self) -> None:
        self._batches.close()


@final
class Feed:
    """Reads one batch for every replica, in the process of the replica's device. Replicas read in parallel."""

    def __init__(self, devices: Sequence[str], tokens: Sequence[str], specs: Sequence[tuple[tuple[int, ...], str]]):
        """`tokens[r]` is the token of a function in replica r's process that returns [examples that count (int64),
        *arrays]; `specs` are the shapes (without the first axis) and dtypes of the arrays.
        """
        self._devices = [_cpu_of(device) for device in devices]
        self._tokens = tuple(tokens)
        self._specs = tuple(specs)
        self._function = tf.function(self._read, autograph=False)

    def next(self) -> tuple[list[list[Any]], list[int]]:
        """Read a flat batch on each replica's device; return the batches, and the numbers of examples that count."""
        read = self._function()
        return [list(batch) for _, batch in read], [int(count) for count, _ in read]

    def _read(self) -> list[tuple[Any, list[Any]]]:
        outputs = []
        for device, token in zip(self._devices, self._tokens, strict=True):
            with tf.device(device):
                dtypes = [tf.int64, *(tf.as_dtype(dtype) for _, dtype in self._specs)]
                count, *batch = tf.raw_ops.PyFunc(input=[], token=token, Tout=dtypes)
                run_independently(count.op)
                count.set_shape([])
                for tensor, (shape, _) in zip(batch, self._specs, strict=True):
                    tensor.set_shape([None, *shape])
                outputs.append((count, batch))
        return outputs


def _cpu_of(device: str) -> str:
    """Return the CPU device of the process of `device`; a CPU device is returned unchanged."""
    task, _, kind = device.rpartition("/device:")
    return f"{task}/device:CPU:0" if kind.startswith("GPU") else device
