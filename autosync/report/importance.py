"""The importance of factors: each one's share of the variance of step times, fairly divided where factors go together.

Notation: y is the logarithm of a strategy's median step seconds. A factor's columns are its values and, unless it has
two values only, their squares. R^2(S) is that of the linear regression of y on the columns of the factors S. A factor's
share is its Shapley value of R^2: what adding it raises R^2 by, averaged over all orders of adding p factors,

    share_j = sum over S without j of  |S|! (p - |S| - 1)! / p!  (R^2(S + j) - R^2(S)),

known as LMG (Lindeman, Merenda, Gold: "Introduction to Bivariate and Multivariate Analysis", 1980; Groemping:
"Estimators of relative importance in linear regression based on variance decomposition", The American Statistician
61(2), 2007). Shares are not negative and add up to R^2 of all. Intervals are of a bootstrap over strategies. Since even
noise explains something of few strategies, each share stands beside what it is by chance: the 95 % quantile of its
share when y is shuffled. What is searched is no random sample: shares are of what differed among the strategies timed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from autosync.layout.together import Layout
from autosync.spec import ALGORITHMS, AllReduce, ModelSpec, ParameterServer, Strategy
from autosync.words.strategy import algorithm_in_words


@dataclass(frozen=True, eq=False)
class Factor:
    """`values`, float64 (strategies, columns): one column, or one for each algorithm. `about` says what they are."""

    name: str
    about: str
    values: Floats


def factors_of(strategies: Sequence[Strategy], model: ModelSpec) -> list[Factor]:
    """Every factor, in the order of `COLUMNS`; those in which no two strategies differ are left out."""
    rows = [_row(strategy, model) for strategy in strategies]
    table = {name: np.array([row.get(name, 0.0) for row in rows]) for name in (*COLUMNS, *ALGORITHM_COLUMNS)}
    factors = [Factor(name, about, table[name][:, None]) for name, about in COLUMNS.items()]
    algorithms = np.stack([table[name] for name in ALGORITHM_COLUMNS], axis=1)
    factors.append(Factor("all-reduce algorithm", "share of the bytes reduced by each but the ring", algorithms))
    return [each for each in factors if np.ptp(each.values, axis=0).max() > 0]


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
    for each in Layout.of(strategy, model).shards:
        size, shard = each.gradient_bytes / model.gradient_bytes, each.synchronizer
        kinds = ["cut variables"] * (each.slice.count > 1) + ["compressed bytes"] * (shard.compressor is not None)
        if isinstance(shard, ParameterServer):
            servers[shard.device] += size  # type: ignore[assignment]
            kinds += ["local copies"] * shard.local_copy
        elif each.variable.sparse:
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


Floats = npt.NDArray[np.float64]

FEWEST = 20
"""The fewest strategies of which anything is said."""

RESAMPLES = 300
RIDGE = 1e-6
"""Added to correlation matrices, which columns that say the same would make singular."""


@dataclass(frozen=True)
class Importance:
    """One factor's `share` of the variance with a 95 % interval, and the share that it reaches by `chance`.

    `direction` is Spearman's rank correlation with the step time: below 0, more of it goes with shorter steps; None for
    a factor of several columns.
    """

    factor: str
    about: str
    share: float
    low: float
    high: float
    chance: float
    direction: float | None

    @property
    def is_beyond_chance(self) -> bool:
        return self.share > self.chance and self.low > 0


def importance_of(
    factors: Sequence[Factor], step_seconds: Sequence[float], generator: np.random.Generator
) -> list[Importance]:
    """The importance of every factor, largest first; none for fewer than `FEWEST` strategies, or without factors."""
    y, count = np.log(np.array(step_seconds, np.float64)), len(step_seconds)
    if count < FEWEST or not factors or np.ptp(y) == 0:
        return []
    blocks = [_columns(each.values) for each in factors]
    table = np.concatenate([*blocks, y[:, None]], axis=1)
    drawn = generator.integers(0, count, (RESAMPLES, count))
    shuffled = np.repeat(table[None], RESAMPLES, axis=0)
    shuffled[..., -1] = generator.permuted(np.tile(y, (RESAMPLES, 1)), axis=1)
    samples = np.concatenate([table[None], table[drawn], shuffled])
    shares = _shapley(_correlations(samples), [block.shape[1] for block in blocks])
    resampled, by_chance = shares[1 : RESAMPLES + 1], shares[RESAMPLES + 1 :]
    low, high = np.quantile(resampled, (0.025, 0.975), axis=0)
    chance = np.quantile(by_chance, 0.95, axis=0)
    found = [
        Importance(
            each.name,
            each.about,
            share=float(shares[0, at]),
            low=float(low[at]),
            high=float(high[at]),
            chance=float(chance[at]),
            direction=_direction(each, y),
        )
        for at, each in enumerate(factors)
    ]
    return sorted(found, key=lambda each: -each.share)


def _columns(values: Floats) -> Floats:
    """Standardized values and their squares, float64 (n, columns)."""
    spread = values.std(axis=0)
    plain = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    curved = [at for at in range(values.shape[1]) if len(np.unique(values[:, at])) > 2]
    return np.concatenate([plain, plain[:, curved] ** 2], axis=1)


def _correlations(samples: Floats) -> Floats:
    """Correlations, float64 (samples, columns, columns); a column that does not vary in a sample has none."""
    centred = samples - samples.mean(axis=1, keepdims=True)
    norms = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    scaled = np.divide(centred, norms, out=np.zeros_like(centred), where=norms > 1e-12)
    return np.asarray(np.swapaxes(scaled, 1, 2) @ scaled)


def _shapley(correlations: Floats, widths: Sequence[int]) -> Floats:
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


def _r_squared(correlations: Floats, columns: list[int]) -> Floats:
    if not columns:
        return np.zeros(len(correlations))
    among = correlations[:, columns][:, :, columns] + RIDGE * np.eye(len(columns))
    with_y = correlations[:, columns, -1]
    weights = np.linalg.solve(among, with_y[..., None])[..., 0]
    return np.asarray((with_y * weights).sum(axis=1))


def _bits(members: int) -> list[int]:
    return [j for j in range(members.bit_length()) if members >> j & 1]


def _direction(factor: Factor, y: Floats) -> float | None:
    return float(spearmanr(factor.values[:, 0], y).statistic) if factor.values.shape[1] == 1 else None
