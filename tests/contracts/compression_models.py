"""Models of compressed exchanges in plain NumPy, written from the papers. The engine must agree with them in every
step.

A model takes one flat gradient a replica and returns the mean after the exchange, which is the same for all replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, final

import numpy as np

from autosync.numeric import AnyArray

__all__ = ["Model", "OwnTopK", "PowerSGDWithAllReduce", "PowerSGDWithServer", "SharedTopK", "Uncompressed"]


class Model(Protocol):
    """One bucket or one server's shard, with its own memory of the replicas."""

    def mean(self, gradients: Sequence[AnyArray]) -> AnyArray: ...


@final
class Uncompressed:
    def mean(self, gradients: Sequence[AnyArray]) -> AnyArray:
        return _sum(gradients) / len(gradients)


@final
class OwnTopK:
    """Stich, Cordonnier and Jaggi 2018: each replica sends the k largest of gradient and memory."""

    def __init__(self, replicas: int, elements: int, kept: int, dtype: str) -> None:
        self.kept = kept
        self.unsent = [np.zeros(elements, dtype) for _ in range(replicas)]

    def mean(self, gradients: Sequence[AnyArray]) -> AnyArray:
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
    """Tyagi and Swany 2023, algorithm 1 (AR-Topk): all replicas use the indices of one replica's k largest elements."""

    def __init__(self, replicas: int, elements: int, kept: int, dtype: str, rule: str) -> None:
        self.kept = kept
        self.rule = rule
        self.steps = 0
        self.unsent = [np.zeros(elements, dtype) for _ in range(replicas)]
        self.speakers: list[int] = []

    def mean(self, gradients: Sequence[AnyArray]) -> AnyArray:
        accumulated = [held + gradient for held, gradient in zip(self.unsent, gradients, strict=True)]
        own = [_largest(total, self.kept) for total in accumulated]
        if self.rule == "star":
            speaker = self.steps % len(gradients)
        else:
            speaker = int(np.argmax([np.sum(total[where] ** 2) for total, where in zip(accumulated, own, strict=True)]))
        self.steps += 1
        self.speakers.append(speaker)
        places = own[speaker]
        mean = np.zeros_like(accumulated[0])
        mean[places] = _sum([total[places] for total in accumulated]) / len(gradients)
        for replica, total in enumerate(accumulated):
            total[places] = 0
            self.unsent[replica] = total
        return mean


@final
class PowerSGDWithAllReduce:
    """Vogels, Karimireddy and Jaggi 2019, algorithm 1 inside algorithm 2; the memory takes the aggregated factors."""

    def __init__(self, replicas: int, shape: tuple[int, int], right: AnyArray) -> None:
        self.right = right
        self.unsent = [np.zeros(shape, right.dtype) for _ in range(replicas)]

    def mean(self, gradients: Sequence[AnyArray]) -> AnyArray:
        matrices = [held + gradient.reshape(held.shape) for held, gradient in zip(self.unsent, gradients, strict=True)]
        left = _orthonormal(_sum([matrix @ self.right for matrix in matrices]) / len(matrices))
        right = _sum([matrix.T @ left for matrix in matrices]) / len(matrices)
        decoded = left @ right.T
        self.unsent = [matrix - decoded for matrix in matrices]
        self.right = _renewed(self.right, right, left)
        return np.ravel(decoded)


@final
class PowerSGDWithServer:
    """PowerSGD at a server: each replica knows only its own right factor, and continues from it."""

    def __init__(self, replicas: int, shape: tuple[int, int], right: AnyArray) -> None:
        self.rights = [right for _ in range(replicas)]
        self.unsent = [np.zeros(shape, right.dtype) for _ in range(replicas)]

    def mean(self, gradients: Sequence[AnyArray]) -> AnyArray:
        matrices = [held + gradient.reshape(held.shape) for held, gradient in zip(self.unsent, gradients, strict=True)]
        pairs = zip(matrices, self.rights, strict=True)
        left = _orthonormal(_sum([left @ right for left, right in pairs]) / len(matrices))
        rights = [matrix.T @ left for matrix in matrices]
        self.unsent = [matrix - left @ right.T for matrix, right in zip(matrices, rights, strict=True)]
        self.rights = [_renewed(old, new, left) for old, new in zip(self.rights, rights, strict=True)]
        return np.ravel(left @ (_sum(rights) / len(rights)).T)


def _sum(arrays: Sequence[AnyArray]) -> AnyArray:
    """Return the sum in the order of the replicas and in their dtype."""
    total = np.zeros_like(arrays[0])
    for array in arrays:
        total = total + array
    return total


def _largest(array: AnyArray, count: int) -> AnyArray:
    """Return the indices of the `count` largest magnitudes; among equal magnitudes the first."""
    return np.argsort(-np.abs(array), kind="stable")[:count]


def _orthonormal(matrix: AnyArray) -> AnyArray:
    """Orthonormalize by Gram-Schmidt, column by column; a column that depends on earlier columns becomes zero."""
    result = np.zeros_like(matrix)
    for number in range(matrix.shape[1]):
        column = matrix[:, number]
        for _ in range(2):
            for before in range(number):
                column = column - result[:, before] * (result[:, before] @ column)
        if np.linalg.norm(column) > 1e-4 * np.linalg.norm(matrix[:, number]):
            result[:, number] = column / np.linalg.norm(column)
    return result


def _renewed(old: AnyArray, new: AnyArray, left: AnyArray) -> AnyArray:
    """Return the next right factor: a column whose left column is zero stays unchanged."""
    return np.where(np.any(left != 0, axis=0), new, old)
