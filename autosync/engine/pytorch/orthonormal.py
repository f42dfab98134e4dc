"""Arithmetic of PowerSGD that every rank repeats, with the same bits on all processors.

A sum runs in a fixed order, and a product and a sum are rounded separately, so the results depend neither on the width
of a processor's vectors nor on the number of threads, as those of a matrix product may.
"""

from __future__ import annotations

import torch

VANISHED = 1e-4
"""A column that keeps at most this share of its length without earlier columns is rounding error and becomes zero."""


def orthonormal(matrix: torch.Tensor) -> torch.Tensor:
    """Orthonormalize the columns of `matrix` (rows, r) by Gram-Schmidt, each twice (Giraud et al. 2005).

    The columns become orthonormal, or zero; NaN stays.
    """
    columns = torch.zeros_like(matrix)
    for number in range(matrix.shape[1]):
        column = matrix[:, number]
        largest = column.abs().amax()  # the square of a larger number might overflow
        if largest == 0:
            continue
        column = column / largest
        before = _sum(column.square())
        for _ in range(2):
            for earlier in columns[:, :number].unbind(1):
                column = column - earlier * _sum(earlier * column)
        left = _sum(column.square())
        if not left <= VANISHED**2 * before:
            columns[:, number] = column / left.sqrt()
    return columns


def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """P Q^T of `left` P (rows, r) and `right` Q (columns, r)."""
    total = left[:, :1] * right[:, 0]
    for number in range(1, left.shape[1]):
        total += left[:, number, None] * right[:, number]
    return total


def _sum(column: torch.Tensor) -> torch.Tensor:
    """The sum of a vector in the order of its elements."""
    return column.cumsum(0)[-1]
