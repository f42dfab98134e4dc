"""The examples of a step: the replicas' own synthetic batches or given ones, split by shares if a step has loads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import tensorflow as tf

from autosync.engine.core.batch_split import split_examples, weights_by_examples
from autosync.engine.tensorflow.step.replica import Replica
from autosync.errors import SpecError
from autosync.spec import Loads


@final
class OwnBatches:
    """The synthetic batches that replicas draw, or the part of their examples that loads give to each replica.

    `sizes` are the batch sizes of a draw, and `examples` is the number of examples of a whole step with loads.
    """

    def __init__(self, loads: Loads | None, replicas: int, batch_size: int) -> None:
        self.sizes = [batch_size] * replicas
        self.examples = sum(self.sizes)
        self._draws = 1
        if loads is not None:
            self.examples = max(1, round(self.examples * loads.times))
            self._draws = math.ceil(loads.largest_share * self.examples / batch_size)

    def of(self, replica: Replica, sizes: Any) -> list[Any]:
        """Draw the next batch of `replica`, while a step is traced.

        `sizes`, int32 (replicas,), are the numbers of examples of all replicas; None draws a whole batch.
        """
        if sizes is None:
            return replica.next_batch()
        drawn = [replica.next_batch() for _ in range(self._draws)]
        with tf.device(replica.device):
            # A replica without examples still runs one example, which has weight 0.
            count = tf.maximum(sizes[replica.number], 1)
            return [tf.concat(parts, 0)[:count] for parts in zip(*drawn, strict=True)]


@dataclass(frozen=True)
class Deal:
    """The split of a step's examples over replicas."""

    batches: Sequence[Sequence[tf.Tensor]] | None
    """Flat given batches, one a replica; None for the replicas' own batches."""
    weights: Sequence[float] | None
    """The weights of the replicas' means; None for equal weights."""
    sizes: list[int]
    """The number of examples of each replica."""
    own_sizes: Any
    """`sizes` as a tensor, int32 (replicas,), if own batches are split by loads; otherwise None."""

    @classmethod
    def of(
        cls,
        batches: Sequence[Sequence[tf.Tensor]] | None,
        weights: Sequence[float] | None,
        loads: Sequence[float] | None,
        drawn: OwnBatches,
    ) -> Deal:
        """Split given `batches`, or the batches that replicas draw, by `loads`; None leaves them as they are.

        Raises `SpecError` for given batches if the strategy's steps have another number of examples.
        """
        sizes, own_sizes = drawn.sizes, None
        if batches is not None and drawn.examples != sum(drawn.sizes):
            raise SpecError(
                f"The strategy's loads ask for {drawn.examples / sum(drawn.sizes):g} times the examples of a step, but "
                "you give batches of a fixed size. Give larger or smaller batches, and leave out the loads' 'times'."
            )
        if loads is not None and batches is not None:
            batches, weights = _split_again(batches, weights, loads)
        elif loads is not None:
            sizes = split_examples(drawn.examples, loads)
            weights, own_sizes = weights_by_examples(sizes), tf.constant(sizes)
        if batches is not None:
            sizes = [int(batch[0].shape[0]) for batch in batches]
        return cls(batches, weights, sizes, own_sizes)


def _split_again(
    batches: Sequence[Sequence[tf.Tensor]], weights: Sequence[float] | None, shares: Sequence[float]
) -> tuple[list[list[Any]], Sequence[float] | None]:
    """Split all examples of flat `batches`, one a replica, by `shares`; return the new batches and their weights.

    Batches with weight 0 are left out. A replica without examples runs a copy of the first example, with weight 0.
    """
    counted = [batch for number, batch in enumerate(batches) if weights is None or weights[number] > 0]
    whole = [tf.concat(parts, 0) for parts in zip(*counted, strict=True)]
    sizes = split_examples(int(whole[0].shape[0]), shares)
    dealt, begin = [], 0
    for size in sizes:
        dealt.append([array[begin : begin + size] if size else array[:1] for array in whole])
        begin += size
    return dealt, weights_by_examples(sizes)
