"""Examples dealt out to replicas by shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from autosync.engine.step.replica import Replica
from autosync.engine.training.training import weights as weights_by_examples
from autosync.errors import SpecError
from autosync.spec import Loads


@final
class OwnBatches:
    """The synthetic batches that replicas draw, or as many of their examples as are dealt out to each.

    `sizes` are what each draws at a time, and `examples` how many a step has in all where they are dealt out.
    """

    def __init__(self, loads: Loads | None, replicas: int, batch_size: int) -> None:
        self.sizes = [batch_size] * replicas
        self.examples = sum(self.sizes)
        self._draws = 1
        if loads is not None:
            self.examples = max(1, round(self.examples * loads.times))
            self._draws = math.ceil(loads.largest_share * self.examples / batch_size)

    def of(self, replica: Replica, sizes: Any) -> list[Any]:
        """The next batch of `replica`, while a step is traced: whole where `sizes` is None, int32 (replicas,)."""
        import tensorflow as tf

        if sizes is None:
            return replica.next_batch()
        drawn = [replica.next_batch() for _ in range(self._draws)]
        with tf.device(replica.device):
            # One that is dealt none runs one that weighs nothing.
            count = tf.maximum(sizes[replica.number], 1)
            return [tf.concat(parts, 0)[:count] for parts in zip(*drawn, strict=True)]


@dataclass(frozen=True)
class Deal:
    """The examples of a step: flat `batches`, or None for the replicas' own; how many each has, what its mean weighs.

    `own` are the sizes, int32 (replicas,), where own batches are dealt out. `weights` are None where all weigh alike.
    """

    batches: Sequence[Sequence[Any]] | None
    weights: Sequence[float] | None
    sizes: list[int]
    own: Any

    @classmethod
    def of(
        cls,
        batches: Sequence[Sequence[Any]] | None,
        weights: Sequence[float] | None,
        loads: Sequence[float] | None,
        drawn: OwnBatches,
    ) -> Deal:
        """What is given, or what replicas draw by themselves, dealt out by `loads` if there are any.

        Raises `SpecError` for given batches where a step is to have another number of examples.
        """
        import tensorflow as tf

        sizes, own = drawn.sizes, None
        if batches is not None and drawn.examples != sum(drawn.sizes):
            raise SpecError(
                f"The strategy's steps have {drawn.examples / sum(drawn.sizes):g} times the examples, but batches that "
                "are given are as large as they are: give larger or smaller ones, and leave out the loads' 'times'."
            )
        if loads is not None and batches is not None:
            batches, weights = dealt_anew(batches, weights, loads)
        elif loads is not None:
            sizes = dealt_out(drawn.examples, loads)
            weights, own = weights_by_examples(sizes), tf.constant(sizes)
        if batches is not None:
            sizes = [int(batch[0].shape[0]) for batch in batches]
        return cls(batches, weights, sizes, own)


def dealt_out(examples: int, shares: Sequence[float]) -> list[int]:
    """`examples` by `shares`, which add up to 1, as near as whole ones can be."""
    exact = [examples * each for each in shares]
    sizes = [int(each) for each in exact]
    order = sorted(range(len(shares)), key=lambda replica: (sizes[replica] - exact[replica], replica))
    for replica in order[: examples - sum(sizes)]:
        sizes[replica] += 1
    return sizes


def counted_alone(weights: Sequence[float], counted: Sequence[bool]) -> list[float]:
    """`weights`, 1 on the mean, of the `counted` replicas alone: 0 for the others, and 1 on the mean again."""
    kept = [weight if counts else 0.0 for weight, counts in zip(weights, counted, strict=True)]
    return [weight * len(kept) / sum(kept) for weight in kept]


def dealt_anew(
    batches: Sequence[Sequence[Any]], weights: Sequence[float] | None, shares: Sequence[float]
) -> tuple[list[list[Any]], Sequence[float] | None]:
    """All examples of flat `batches`, one a replica, dealt out by `shares`; and what each replica's then weigh.

    What weighs nothing is left out. A replica that is left without an example runs a copy of the first one, which
    weighs nothing.
    """
    import tensorflow as tf

    counted = [batch for number, batch in enumerate(batches) if weights is None or weights[number] > 0]
    whole = [tf.concat(parts, 0) for parts in zip(*counted, strict=True)]
    sizes = dealt_out(int(whole[0].shape[0]), shares)
    dealt, begin = [], 0
    for size in sizes:
        dealt.append([each[begin : begin + size] if size else each[:1] for each in whole])
        begin += size
    return dealt, weights_by_examples(sizes)
