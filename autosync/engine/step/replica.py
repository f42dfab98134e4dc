"""One replica's part of a step: its batch, its forward and backward pass, its own state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from autosync.engine.capture.captured import CapturedModel
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
        """`CapturedModel.gradient_with`, loaded when a strategy first asks for it."""
        if factored not in self._with_factors:
            self._with_factors[factored] = self.captured.gradient_with(factored).callable()
        return self._with_factors[factored]

    def look_up(self, batch: Sequence[Any]) -> Lookups:
        """The rows of sparse variables that a batch touches."""
        import tensorflow as tf

        if self.lookups is None:
            return Lookups({}, [])
        raw = list(self.lookups(*batch))
        by_variable: dict[int, list[Any]] = {}
        for variable, ids in zip(self.captured.lookup_of, raw, strict=True):
            dtype = id_dtype(self.captured.spec.variables[variable])
            by_variable.setdefault(variable, []).append(tf.reshape(tf.cast(ids, dtype), [-1]))
        distinct = {variable: tf.sort(tf.unique(tf.concat(ids, 0)).y) for variable, ids in by_variable.items()}
        return Lookups(distinct, raw)

    def positions(self, found: Lookups) -> list[Any]:
        """Where each lookup's rows are among those of its variable that were found."""
        import tensorflow as tf

        return [
            tf.reshape(
                tf.searchsorted(
                    found.ids[variable],
                    tf.reshape(tf.cast(raw, found.ids[variable].dtype), [-1]),
                    out_type=raw.dtype,
                ),
                tf.shape(raw),
            )
            for variable, raw in zip(self.captured.lookup_of, found.raw, strict=True)
        ]


@dataclass(frozen=True)
class Lookups:
    """What one replica's batch looks up: by variable the sorted distinct rows `ids`, and by lookup its row numbers.

    `of_shards` holds the ids by shard, once they are cut, so that each goes to its server once for pull and push.
    """

    ids: dict[int, Any]
    raw: list[Any]
    of_shards: dict[int, list[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """One replica's loss and gradients: by variable a dense tensor, or `rows` (n, ...) matching `Lookups.ids`.

    `factors` has the two factors A (K, M) and B (K, N) of those variables whose gradient A^T B is not sent itself.
    `kept` is what the replica is to keep of its pass for itself: state, then metrics.
    """

    loss: Any
    gradients: dict[int, Any]
    factors: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    kept: Sequence[Any] = ()

    def weighing(self, weight: Any, device: str) -> Results:
        """The same, counting `weight` (scalar float32) times on `device`; with 0 as zeros, whatever it was."""
        import tensorflow as tf

        def weighed(tensor: Any) -> Any:
            return tf.where(weight > 0, tensor * tf.cast(weight, tensor.dtype), tf.zeros([], tensor.dtype))

        with tf.device(device):
            gradients = {number: weighed(each) for number, each in self.gradients.items()}
            factors = {
                number: (tf.where(weight > 0, a, tf.zeros([], a.dtype)), weighed(b))
                for number, (a, b) in self.factors.items()
            }
            return Results(weighed(self.loss), gradients, factors, self.kept)

    def square_norm(self, device: str) -> Any:
        """The squared norm of all gradients together, on `device`, float64."""
        import tensorflow as tf

        with tf.device(device):
            sums = [2 * tf.nn.l2_loss(_wide(each)) for each in self.gradients.values()]
            # |A^T B|^2 is the sum of (A A^T) (B B^T), element by element.
            for a, b in ((_wide(a), _wide(b)) for a, b in self.factors.values()):
                sums.append(tf.reduce_sum(tf.matmul(a, a, transpose_b=True) * tf.matmul(b, b, transpose_b=True)))
            return tf.add_n([tf.cast(each, tf.float64) for each in sums])


def id_dtype(variable: Variable) -> str:
    """The type of a sparse variable's row numbers as they travel: the shorter one wherever it can count the rows."""
    return "int32" if variable.shape[0] <= MOST_SHORT_IDS else "int64"


@final
class Replica:
    """A replica on one device, with the state that it keeps for itself (batch-norm statistics, dropout seeds)."""

    def __init__(
        self,
        model: CompiledModel,
        number: int,
        device: str,
        state: Sequence[Any],
        factored: frozenset[int] = frozenset(),
        metrics: Sequence[Any] = (),
    ) -> None:
        """`state` and `metrics` are initial values, on the device already; `factored` variables give factors."""
        import tensorflow as tf

        self.model = model
        self.number = number
        self.factored = factored
        self.device = device
        with tf.device(device):
            self.steps = tf.Variable(tf.constant(0, tf.int32), trainable=False)
            self.state = [
                tf.Variable(self._own_seed(value) if is_seed else value, trainable=False)
                for value, is_seed in zip(state, model.captured.seeds, strict=True)
            ]

            self.metrics = [tf.Variable(value, trainable=False) for value in metrics]
        self._initial_metrics = tuple(metrics)

    def reset_metrics(self) -> None:
        """Queue on the device that the metrics begin anew."""
        for held, value in zip(self.metrics, self._initial_metrics, strict=True):
            held.assign(value)

    def _own_seed(self, seed: Any) -> Any:
        """A seed of this replica's own, so that replicas do not drop the same units."""
        import tensorflow as tf

        return seed + tf.cast(self.number, seed.dtype)

    def next_batch(self) -> list[Any]:
        """The next synthetic batch, made on the replica. Every strategy sees the same sequence."""
        import tensorflow as tf

        with tf.device(self.device):
            seed = tf.stack([self.steps.read_value(), self.number])
            self.steps.assign_add(1)
            return list(self.model.batch(seed))

    def look_up(self, batch: Sequence[Any]) -> Lookups:
        """The rows of sparse variables that this batch touches."""
        import tensorflow as tf

        with tf.device(self.device):
            return self.model.look_up(batch)

    def run(self, values: Sequence[Any], batch: Sequence[Any], lookups: Lookups, weight: Any = None) -> Results:
        """A pass as of `compute`, of which the replica keeps what it has for itself.

        Loss and gradients count `weight` (scalar float32) times; with 0 the pass leaves no trace.
        """
        results = self.compute(values, batch, lookups)
        self.keep(results.kept, weight)
        return results if weight is None else results.weighing(weight, self.device)

    def keep(self, kept: Sequence[Any], weight: Any = None) -> None:
        """Keep what a pass has made of state and metrics, unless it counts `weight` 0."""
        import tensorflow as tf

        with tf.device(self.device):
            for held, new in zip([*self.state, *self.metrics], kept, strict=True):
                held.assign(new if weight is None else tf.where(weight > 0, new, held.read_value()))

    def compute(self, values: Sequence[Any], batch: Sequence[Any], lookups: Lookups) -> Results:
        """Forward and backward pass. A sparse variable's value is its rows `lookups.ids`."""
        import tensorflow as tf

        captured = self.model.captured
        compute = self.model.gradient_with(self.factored)
        with tf.device(self.device):
            positions = self.model.positions(lookups)
            state = [each.read_value() for each in self.state]
            metrics = [each.read_value() for each in self.metrics]
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
                    gradients[number].set_shape(variable.shape)  # lost by the tracer behind a loop
        return Results(loss, gradients, factors, rest)


def _wide(tensor: Any) -> Any:
    """A 16-bit `tensor` as float32: squares of its numbers are too large for it."""
    import tensorflow as tf

    return tf.cast(tensor, tf.float32) if tensor.dtype.size < 4 else tensor


def _sum_by_row(rows: Any, raw_ids: Any, ids: Any) -> Any:
    """Add up the gradient of every distinct row in `ids` (sorted) from `rows`, one for every lookup."""
    import tensorflow as tf

    places = tf.searchsorted(ids, tf.cast(tf.reshape(raw_ids, [-1]), ids.dtype))
    return tf.math.unsorted_segment_sum(rows, places, tf.size(ids))
