"""The importance of factors: the share of the variance of step times of each, divided fairly among correlated factors.

Notation: y is the logarithm of a strategy's median step seconds. A factor's columns are its values and, unless it has
only two distinct values, their squares. R^2(S) is that of the linear regression of y on the columns of the factors S. A
factor's share is its Shapley value of R^2: the increase of R^2 by adding the factor, averaged over all orders of adding
p factors,

    share_j = sum over S without j of  |S|! (p - |S| - 1)! / p!  (R^2(S + j) - R^2(S)),

known as LMG (Lindeman, Merenda, Gold: "Introduction to Bivariate and Multivariate Analysis", 1980; Groemping:
"Estimators of relative importance in linear regression based on variance decomposition", The American Statistician
61(2), 2007). Shares are not negative and add up to the R^2 of all factors. Intervals are from a bootstrap over
strategies. Because with few strategies even noise explains some variance, each share is shown with the share by chance:
the 95 % quantile of the factor's share when y is shuffled. Searched strategies are no random sample, so shares describe
the differences among the timed strategies only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from autosync.layout.fusion import Layout
from autosync.numeric import FloatArray
from autosync.spec import ALGORITHMS, AllReduce, ModelSpec, ParameterServer, Strategy
from autosync.words.strategy import algorithm_in_words


@dataclass(frozen=True, eq=False)
class Factor:
    """A property of strategies. `values` are float64 (strategies, columns): one column, or one per algorithm;
    `about` explains them.
    """

    name: str
    about: str
    values: FloatArray


def factors_of(strategies: Sequence[Strategy], model: ModelSpec) -> list[Factor]:
    """Every factor, in the order of `COLUMNS`; factors that are equal in all strategies are left out."""
    rows = [_row(strategy, model) for strategy in strategies]
    table = {name: np.array([row.get(name, 0.0) for row in rows]) for name in (*COLUMNS, *ALGORITHM_COLUMNS)}
    factors = [Factor(name, about, table[name][:, None]) for name, about in COLUMNS.items()]
    algorithms = np.stack([table[name] for name in ALGORITHM_COLUMNS], axis=1)
    factors.append(Factor("all-reduce algorithm", "share of the bytes reduced by each but the ring", algorithms))
    return [factor for factor in factors if np.ptp(factor.values, axis=0).max() > 0]


COLUMNS = {
    "all-reduced bytes": "share of the gradients' bytes that is all-reduced",
    "gathered rows": "share that is sparse and gathered by every replica",
    "number of buckets": "logarithm of the all-reduce buckets, plus one",
    "busiest server": "share of the bytes on the server that holds most",
    "cut variables": "share of the bytes in variables that are cut",
    "local copies": "share on servers with local copies",
    "compressed bytes": "share that is compressed",
}
ALGORITHM_COLUMNS = tuple(algorithm_in_words(name) for name in ALGORITHMS if name != "ring")


def _row(strategy: Strategy, model: ModelSpec) -> dict[str, float]:
    held, servers, buckets = Counter[str](), Counter[str](), set[int]()
    for part in Layout.of(strategy, model).shards:
        size, shard = part.gradient_bytes / model.gradient_bytes, part.synchronizer
        kinds = ["cut variables"] * (part.slice.count > 1) + ["compressed bytes"] * (shard.compressor is not None)
        if isinstance(shard, ParameterServer):
            servers[shard.device] += size  # type: ignore[assignment]
            kinds += ["local copies"] * shard.local_copy
        elif part.variable.sparse:
            kinds.append("gathered rows")
        else:
            kinds += ["all-reduced bytes", *_algorithm(shard)]
            buckets.add(shard.group)
        for kind in kinds:
            held[kind] += size  # type: ignore[assignment]
    counts = {"number of buckets": math.log1p(len(buckets)), "busiest server": max(servers.values(), default=0.0)}
    return {**held, **counts}


def _algorithm(shard: AllReduce) -> list[str]:
    return [] if shard.gathers or shard.algorithm == "ring" else [algorithm_in_words(shard.algorithm)]


FEWEST = 20
"""The fewest strategies for which importances are computed."""

RESAMPLES = 300
RIDGE = 1e-6
"""Added to the diagonal of correlation matrices, which equal columns would make singular."""


@dataclass(frozen=True)
class Importance:
    """One factor's share of the variance."""

    factor: str
    """The factor's name."""

    about: str
    """The meaning of the factor's values."""

    share: float

    low: float
    """The lower end of the share's 95 % interval."""

    high: float
    """The upper end of the share's 95 % interval."""

    chance: float
    """The share that the factor reaches by chance."""

    direction: float | None
    """Spearman's rank correlation with the step time: below 0, larger values go with shorter steps. None for a
    factor of several columns."""

    @property
    def is_beyond_chance(self) -> bool:
        return self.share > self.chance and self.low > 0


def importance_of(
    factors: Sequence[Factor], step_seconds: Sequence[float], generator: np.random.Generator
) -> list[Importance]:
    """The importance of every factor, the largest first; empty for fewer than `FEWEST` strategies, or without
    factors.
    """
    y, count = np.log(np.array(step_seconds, np.float64)), len(step_seconds)
    if count < FEWEST or not factors or np.ptp(y) == 0:
        return []
    blocks = [_columns(factor.values) for factor in factors]
    table = np.concatenate([*blocks, y[:, None]], axis=1)
    drawn = generator.integers(0, count, (RESAMPLES, count))
    shuffled = np.repeat(table[None], RESAMPLES, axis=0)
    shuffled[..., -1] = generator.permuted(np.tile(y, (RESAMPLES, 1)), axis=1)
    samples = np.concatenate([table[None], table[drawn], shuffled])
    shares = _shapley(_correlations(samples), [block.shape[1] for block in blocks])
    resampled, by_chance = shares[1 : RESAMPLES + 1], shares[RESAMPLES + 1 :]
    low, high = np.quantile(resampled, (0.025, 0.975), axis=0)
    chance = np.quantile(by_chance, 0.95, axis=0)
    importances = [
        Importance(
            factor.name,
            factor.about,
            share=float(shares[0, at]),
            low=float(low[at]),
            high=float(high[at]),
            chance=float(chance[at]),
            direction=_direction(factor, y),
        )
        for at, factor in enumerate(factors)
    ]
    return sorted(importances, key=lambda importance: -importance.share)


def _columns(values: FloatArray) -> FloatArray:
    """Standardized values and their squares, float64 (n, columns)."""
    spread = values.std(axis=0)
    plain = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    curved = [at for at in range(values.shape[1]) if len(np.unique(values[:, at])) > 2]
    return np.concatenate([plain, plain[:, curved] ** 2], axis=1)


def _correlations(samples: FloatArray) -> FloatArray:
    """Correlations, float64 (samples, columns, columns); 0 for a column that is constant in a sample."""
    centred = samples - samples.mean(axis=1, keepdims=True)
    norms = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    scaled = np.divide(centred, norms, out=np.zeros_like(centred), where=norms > 1e-12)
    return np.asarray(np.swapaxes(scaled, 1, 2) @ scaled)


def _shapley(correlations: FloatArray, widths: Sequence[int]) -> FloatArray:
    """The share of each factor, float64 (samples, factors); factors have `widths` columns, and y is the last column."""
    ends = np.cumsum(widths)
    columns = [list(range(end - width, end)) for width, end in zip(widths, ends, strict=True)]
    explained = {
        members: _r_squared(correlations, [at for j in _bits(members) for at in columns[j]])
        for members in range(1 << len(widths))
    }
    count = len(widths)
    shares = np.zeros((len(correlations), count))
    for members, r_squared in explained.items():
        size = members.bit_count()
        for j in set(range(count)) - set(_bits(members)):
            weight = math.factorial(size) * math.factorial(count - size - 1) / math.factorial(count)
            shares[:, j] += weight * (explained[members | 1 << j] - r_squared)
    return shares


def _r_squared(correlations: FloatArray, columns: list[int]) -> FloatArray:
    if not columns:
        return np.zeros(len(correlations))
    among = correlations[:, columns][:, :, columns] + RIDGE * np.eye(len(columns))
    with_y = correlations[:, columns, -1]
    weights = np.linalg.solve(among, with_y[..., None])[..., 0]
    return np.asarray((with_y * weights).sum(axis=1))


def _bits(members: int) -> list[int]:
    return [j for j in range(members.bit_length()) if members >> j & 1]


def _direction(factor: Factor, y: FloatArray) -> float | None:
    return float(spearmanr(factor.values[:, 0], y).statistic) if factor.values.shape[1] == 1 else None
