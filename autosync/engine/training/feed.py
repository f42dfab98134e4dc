"""Batches that a worker's own Python code makes, as tensors that are on the worker from the beginning.

An op `PyFunc` runs in the process of the device it is placed on, and finds the function by its token in a table of that
process. So a worker can offer a function under a token, and the client, told the token, place an op that calls it.
"""

from collections.abc import Callable, Sequence
from typing import Any, final

from autosync.engine.independent import run_independently


def offered(read: Callable[[], list[Any]]) -> str:
    """Offer `read` to ops in this process; the token that names it is good as long as the caller keeps `read`."""
    from tensorflow.python.ops import script_ops

    token = script_ops._py_funcs.insert(read)  # there is no public way that leaves out the op in this process
    return token if isinstance(token, str) else token.decode()


def offered_arrays(give: Callable[..., Any]) -> str:
    """Offer `give`, which gives a NumPy array or a list of them, to ops in this process, as long as it lives.

    TensorFlow makes arrays of whatever a function gives, and first asks NumPy for its version, which is read by regular
    expressions, for each: in a function that only waits, two thirds of what is run. That of an eager function is taken
    as it is.
    """
    from tensorflow.python.ops import script_ops

    class Given(script_ops.EagerFunc):  # type: ignore[misc]
        def __init__(self) -> None: ...

        def __call__(self, _device: Any, _token: Any, args: Any) -> Any:
            return give(*args)

    _KEPT.append(Given())
    return offered(_KEPT[-1])


_KEPT: list[Any] = []
"""What is offered as long as the process lives: TensorFlow itself does not keep it."""


@final
class Feed:
    """Reads one batch for every replica, each in the process of its device, side by side: none waits for another's."""

    def __init__(self, devices: Sequence[str], tokens: Sequence[str], specs: Sequence[tuple[tuple[int, ...], str]]):
        """`tokens[r]` is what replica r's process offers: [examples that count (int64), *arrays]; `specs` are shape
        (without the first axis) and dtype of the arrays.
        """
        import tensorflow as tf

        self._devices = [_cpu_of(device) for device in devices]
        self._tokens = tuple(tokens)
        self._specs = tuple(specs)
        self._function = tf.function(self._read, autograph=False)

    def next(self) -> tuple[list[list[Any]], list[int]]:
        """Read each replica's flat batch, which stays where it was read, and how many of its examples count."""
        read = self._function()
        return [list(batch) for _, batch in read], [int(count) for count, _ in read]

    def _read(self) -> list[tuple[Any, list[Any]]]:
        import tensorflow as tf

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
    """The CPU device of the process that `device` belongs to; a CPU device is that itself."""
    task, _, kind = device.rpartition("/device:")
    return f"{task}/device:CPU:0" if kind.startswith("GPU") else device
