"""Splits a step's examples among replicas, and weighs the replicas' means."""

from __future__ import annotations

from collections.abc import Sequence


def weights_by_examples(counted: Sequence[int]) -> tuple[float, ...] | None:
    """Return the weights of the replicas' means over their `counted` examples; the weights average 1.

    With n_r of n examples on replica r of R, the weight is n_r R / n, so that all examples weigh the same. None if all
    replicas have the same number.
    """
    if len(set(counted)) == 1:
        return None
    return tuple(count * len(counted) / sum(counted) for count in counted)


def split_examples(examples: int, shares: Sequence[float]) -> list[int]:
    """Return the number of examples of each replica: `examples` times `shares`, which add up to 1, rounded.

    Replicas with the largest remainders are rounded up, so that the numbers add up to `examples`.
    """
    exact = [examples * share for share in shares]
    sizes = [int(size) for size in exact]
    order = sorted(range(len(shares)), key=lambda replica: (sizes[replica] - exact[replica], replica))
    for replica in order[: examples - sum(sizes)]:
        sizes[replica] += 1
    return sizes


def weights_of_counted(weights: Sequence[float], counted: Sequence[bool]) -> list[float]:
    """Set the `weights` of replicas that are not `counted` to 0, and scale the others so that the weights average 1."""
    kept = [weight if counts else 0.0 for weight, counts in zip(weights, counted, strict=True)]
    return [weight * len(kept) / sum(kept) for weight in kept]
