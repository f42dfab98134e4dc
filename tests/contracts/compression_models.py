"""Compressed exchanges as plain NumPy, written from the papers: what the engine must agree with, step after step.

Each takes one flat gradient a replica and gives their mean as the exchange leaves it, the same for all replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, final

import numpy as np
import numpy.typing as npt

__all__ = ["Model", "OwnTopK", "PowerSGDWithAllReduce", "PowerSGDWithServer", "SharedTopK", "Uncompressed"]

Array = npt.NDArray[Any]


class Model(Protocol):
    """One bucket or one server's shard; what replicas remember is its own."""

    def mean(self, gradients: Sequence[Array]) -> Array: ...


@final
class Uncompressed:
    def mean(self, gradients: Sequence[Array]) -> Array:
        return _sum(gradients) / len(gradients)


@final
class OwnTopK:
    """Stich, Cordonnier and Jaggi 2018: each replica sends the k largest of gradient and memory."""

    def __init__(self, replicas: int, elements: int, kept: int, dtype: str) -> None:
        self.kept = kept
        self.unsent = [np.zeros(elements, dtype) for _ in range(replicas)]

    def mean(self, gradients: Sequence[Array]) -> Array:
        sent = []
        for replica, gradient in enumerate(gradients):
            accumulated = self.unsent[replica] + gradient
            places = _largest(accumulated, self.kept)
            sent.append(np.zeros_like(accumulated))
            sent[-1][places] = accumulated[places]
            self.unsent[replica] = accumulated - sent[-1]
        return _sum(sent) / len(sent)


@final
class SharedTopK:
    """Tyagi and Swany 2023, algorithm 1 (AR-Topk): one replica's k largest places are everybody's."""

    def __init__(self, replicas: int, elements: int, kept: int, dtype: str, rule: str) -> None:
        self.kept = kept
        self.rule = rule
        self.steps = 0
        self.unsent = [np.zeros(elements, dtype) for _ in range(replicas)]
        self.speakers: list[int] = []

    def mean(self, gradients: Sequence[Array]) -> Array:
        accumulated = [held + gradient for held, gradient in zip(self.unsent, gradients, strict=True)]
        own = [_largest(each, self.kept) for each in accumulated]
        if self.rule == "star":
            speaker = self.steps % len(gradients)
        else:
            speaker = int(np.argmax([np.sum(each[where] ** 2) for each, where in zip(accumulated, own, strict=True)]))
        self.steps += 1
        self.speakers.append(speaker)
        places = own[speaker]
        mean = np.zeros_like(accumulated[0])
        mean[places] = _sum([each[places] for each in accumulated]) / len(gradients)
        for replica, each in enumerate(accumulated):
            each[places] = 0
            self.unsent[replica] = each
        return mean


@final
class PowerSGDWithAllReduce:
    """Vogels, Karimireddy and Jaggi 2019, algorithm 1 inside algorithm 2; the memory takes the aggregated factors."""

    def __init__(self, replicas: int, shape: tuple[int, int], right: Array) -> None:
        self.right = right
        self.unsent = [np.zeros(shape, right.dtype) for _ in range(replicas)]

    def mean(self, gradients: Sequence[Array]) -> Array:
        matrices = [held + gradient.reshape(held.shape) for held, gradient in zip(self.unsent, gradients, strict=True)]
        left = _orthonormal(_sum([each @ self.right for each in matrices]) / len(matrices))
        right = _sum([each.T @ left for each in matrices]) / len(matrices)
        decoded = left @ right.T
        self.unsent = [each - decoded for each in matrices]
        self.right = _renewed(self.right, right, left)
        return np.ravel(decoded)


@final
class PowerSGDWithServer:
    """The same, but each replica knows its own right factor only, and goes on from it."""

    def __init__(self, replicas: int, shape: tuple[int, int], right: Array) -> None:
        self.rights = [right for _ in range(replicas)]
        self.unsent = [np.zeros(shape, right.dtype) for _ in range(replicas)]

    def mean(self, gradients: Sequence[Array]) -> Array:
        matrices = [held + gradient.reshape(held.shape) for held, gradient in zip(self.unsent, gradients, strict=True)]
        pairs = zip(matrices, self.rights, strict=True)
        left = _orthonormal(_sum([each @ right for each, right in pairs]) / len(matrices))
        rights = [each.T @ left for each in matrices]
        self.unsent = [each - left @ right.T for each, right in zip(matrices, rights, strict=True)]
        self.rights = [_renewed(old, new, left) for old, new in zip(self.rights, rights, strict=True)]
        return np.ravel(left @ (_sum(rights) / len(rights)).T)


def _sum(arrays: Sequence[Array]) -> Array:
    """The sum, added up in the order of the replicas, and in their dtype."""
    total = np.zeros_like(arrays[0])
    for each in arrays:
        total = total + each
    return total


def _largest(array: Array, count: int) -> Array:
    """Places of the `count` largest magnitudes; of equal ones the first."""
    return np.argsort(-np.abs(array), kind="stable")[:count]


def _orthonormal(matrix: Array) -> Array:
    """Gram-Schmidt, column by column; a column that depends on those before it becomes zero."""
    result = np.zeros_like(matrix)
    for number in range(matrix.shape[1]):
        column = matrix[:, number]
        for _ in range(2):
            for before in range(number):
                column = column - result[:, before] * (result[:, before] @ column)
        if np.linalg.norm(column) > 1e-4 * np.linalg.norm(matrix[:, number]):
            result[:, number] = column / np.linalg.norm(column)
    return result


def _renewed(old: Array, new: Array, left: Array) -> Array:
    """The next right factor: a column whose left one is zero stays as it was."""
    return np.where(np.any(left != 0, axis=0), new, old)
