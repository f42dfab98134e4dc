"""One replica's part of a step: its batch, its forward and backward pass, and its own state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import tensorflow as tf

from autosync.engine.tensorflow.capture.captured import CapturedModel
from autosync.spec import Variable

MOST_SHORT_IDS = 2**31 - 1


@final
class CompiledModel:
    """A captured model's functions, loaded into this process."""

    def __init__(self, captured: CapturedModel) -> None:
        self.captured = captured
        self.batch: Callable[..., list[Any]] = captured.batch.callable()
        self.gradient: Callable[..., list[Any]] = captured.gradient.callable()
        self.lookups: Callable[..., list[Any]] | None = captured.lookups.callable() if captured.lookup_of else None
        self._with_factors: dict[frozenset[int], Callable[..., list[Any]]] = {frozenset(): self.gradient}

    def gradient_with(self, factored: frozenset[int]) -> Callable[..., list[Any]]:
        """Return `CapturedModel.gradient_with`, loaded when a strategy first needs it."""
        if factored not in self._with_factors:
            self._with_factors[factored] = self.captured.gradient_with(factored).callable()
        return self._with_factors[factored]

    def look_up(self, batch: Sequence[tf.Tensor]) -> Lookups:
        """Return the rows of sparse variables that a batch touches."""
        if self.lookups is None:
            return Lookups({}, [])
        raw = list(self.lookups(*batch))
        by_variable: dict[int, list[Any]] = {}
        for variable, ids in zip(self.captured.lookup_of, raw, strict=True):
            dtype = id_dtype(self.captured.spec.variables[variable])
            by_variable.setdefault(variable, []).append(tf.reshape(tf.cast(ids, dtype), [-1]))
        distinct = {variable: tf.sort(tf.unique(tf.concat(ids, 0)).y) for variable, ids in by_variable.items()}
        return Lookups(distinct, raw)

    def positions(self, lookups: Lookups) -> list[Any]:
        """Return the positions of each lookup's rows among the distinct rows of its variable."""
        return [
            tf.reshape(
                tf.searchsorted(
                    lookups.ids[variable],
                    tf.reshape(tf.cast(raw, lookups.ids[variable].dtype), [-1]),
                    out_type=raw.dtype,
                ),
                tf.shape(raw),
            )
            for variable, raw in zip(self.captured.lookup_of, lookups.raw, strict=True)
        ]


@dataclass(frozen=True)
class Lookups:
    """The lookups of one replica's batch: `ids`, the sorted distinct rows by variable, and `raw`, row numbers by
    lookup.

    `of_shards` caches the ids by shard once they are cut, so that pull and push send them to a server only once.
    """

    ids: dict[int, Any]
    raw: list[Any]
    of_shards: dict[int, list[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """One replica's loss and gradients: by variable a dense tensor, or `rows` (n, ...) that match `Lookups.ids`.

    `factors` has the two factors A (K, M) and B (K, N) of the variables whose gradient A^T B is sent as factors.
    `kept` has the values that the pass leaves to the replica: state, then metrics.
    """

    loss: tf.Tensor
    gradients: dict[int, Any]
    factors: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    kept: Sequence[Any] = ()

    def weigh(self, weight: tf.Tensor, device: str) -> Results:
        """Multiply loss and gradients by `weight` (scalar float32) on `device`; weight 0 gives zeros, also for NaN."""

        def times_weight(tensor: tf.Tensor) -> Any:
            return tf.where(weight > 0, tensor * tf.cast(weight, tensor.dtype), tf.zeros([], tensor.dtype))

        with tf.device(device):
            gradients = {number: times_weight(gradient) for number, gradient in self.gradients.items()}
            factors = {
                number: (tf.where(weight > 0, a, tf.zeros([], a.dtype)), times_weight(b))
                for number, (a, b) in self.factors.items()
            }
            return Results(times_weight(self.loss), gradients, factors, self.kept)

    def square_norm(self, device: str) -> Any:
        """Return the squared norm of all gradients together, on `device`, float64."""
        with tf.device(device):
            sums = [2 * tf.nn.l2_loss(_wide(gradient)) for gradient in self.gradients.values()]
            # |A^T B|^2 is the sum of the elements of (A A^T) * (B B^T), multiplied elementwise.
            for a, b in ((_wide(a), _wide(b)) for a, b in self.factors.values()):
                sums.append(tf.reduce_sum(tf.matmul(a, a, transpose_b=True) * tf.matmul(b, b, transpose_b=True)))
            return tf.add_n([tf.cast(square_sum, tf.float64) for square_sum in sums])


def id_dtype(variable: Variable) -> str:
    """The type of a sparse variable's row numbers in messages: the shorter type if it can count the rows."""
    return "int32" if variable.shape[0] <= MOST_SHORT_IDS else "int64"


@final
class Replica:
    """A replica on one device, with its own untrained state (batch-norm statistics, dropout seeds)."""

    def __init__(
        self,
        model: CompiledModel,
        number: int,
        device: str,
        state: Sequence[Any],
        factored: frozenset[int] = frozenset(),
        metrics: Sequence[Any] = (),
    ) -> None:
        """`state` and `metrics` are initial values on the device; gradients of `factored` variables come as factors."""
        self.model = model
        self.number = number
        self.factored = factored
        self.device = device
        with tf.device(device):
            self.steps = tf.Variable(tf.constant(0, tf.int32), trainable=False)
            self.state = [
                tf.Variable(self._seed(value) if is_seed else value, trainable=False)
                for value, is_seed in zip(state, model.captured.seeds, strict=True)
            ]
            self.metrics = [tf.Variable(value, trainable=False) for value in metrics]
        self._initial_metrics = tuple(metrics)

    def reset_metrics(self) -> None:
        """Reset the metrics. This only queues the assignments on the device."""
        for held, value in zip(self.metrics, self._initial_metrics, strict=True):
            held.assign(value)

    def _seed(self, seed: Any) -> Any:
        """Derive this replica's seed from `seed`, so that replicas do not drop the same units."""
        return seed + tf.cast(self.number, seed.dtype)

    def next_batch(self) -> list[Any]:
        """Make the next synthetic batch on the replica. Every strategy sees the same sequence."""
        with tf.device(self.device):
            seed = tf.stack([self.steps.read_value(), self.number])
            self.steps.assign_add(1)
            return list(self.model.batch(seed))

    def look_up(self, batch: Sequence[tf.Tensor]) -> Lookups:
        """Return the rows of sparse variables that this batch touches."""
        with tf.device(self.device):
            return self.model.look_up(batch)

    def run(
        self, values: Sequence[tf.Tensor], batch: Sequence[tf.Tensor], lookups: Lookups, weight: tf.Tensor | None = None
    ) -> Results:
        """Run a pass like `compute`, and store the replica's new state and metrics.

        Loss and gradients are multiplied by `weight` (scalar float32). With weight 0 the pass changes nothing.
        """
        results = self.compute(values, batch, lookups)
        self.keep(results.kept, weight)
        return results if weight is None else results.weigh(weight, self.device)

    def keep(self, kept: Sequence[Any], weight: tf.Tensor | None = None) -> None:
        """Store the state and metrics `kept` of a pass, unless its `weight` is 0."""
        with tf.device(self.device):
            for held, new in zip([*self.state, *self.metrics], kept, strict=True):
                held.assign(new if weight is None else tf.where(weight > 0, new, held.read_value()))

    def compute(self, values: Sequence[tf.Tensor], batch: Sequence[tf.Tensor], lookups: Lookups) -> Results:
        """Run the forward and backward pass. A sparse variable's value is its rows `lookups.ids`."""
        captured = self.model.captured
        compute = self.model.gradient_with(self.factored)
        with tf.device(self.device):
            positions = self.model.positions(lookups)
            state = [variable.read_value() for variable in self.state]
            metrics = [variable.read_value() for variable in self.metrics]
            loss, *rest = compute(*values, *state, *metrics, *batch, *positions)
            gradients: dict[int, Any] = {}
            factors: dict[int, tuple[Any, Any]] = {}
            for number, variable in enumerate(captured.spec.variables):
                if number in self.factored:
                    factors[number] = rest.pop(0), rest.pop(0)
                    continue
                gradients[number] = rest.pop(0)
                if variable.sparse:
                    rows = tf.reshape(gradients[number], [-1, *variable.shape[1:]])
                    gradients[number] = _sum_by_row(rows, rest.pop(0), lookups.ids[number])
                else:
                    gradients[number].set_shape(variable.shape)  # tracing loses the shape after a loop
        return Results(loss, gradients, factors, rest)


def _wide(tensor: tf.Tensor) -> Any:
    """Cast a 16-bit `tensor` to float32, because squares of its numbers may overflow; leave other tensors unchanged."""
    return tf.cast(tensor, tf.float32) if tensor.dtype.size < 4 else tensor


def _sum_by_row(rows: Any, raw_ids: Any, ids: tf.Tensor) -> Any:
    """Sum the gradient of every distinct row in `ids` (sorted) over `rows`, which has one gradient a lookup."""
    places = tf.searchsorted(ids, tf.cast(tf.reshape(raw_ids, [-1]), ids.dtype))
    return tf.math.unsorted_segment_sum(rows, places, tf.size(ids))
