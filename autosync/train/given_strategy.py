"""A strategy read as a person names it, and checked to be one for this model on this cluster."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autosync.errors import SpecError, TrainingError
from autosync.spec import (
    MOST_DEVICES,
    ClusterSpec,
    Device,
    ModelSpec,
    ParameterServer,
    Strategy,
    SufficientFactors,
    cut,
    listed,
    read_json,
)
from autosync.words.quantities import few_of


def read_strategy(strategy: Strategy | Mapping[str, Any] | str | os.PathLike[str]) -> Strategy:
    """The strategy itself, out of its JSON document, or out of a file of it. Raises `SpecError`."""
    if isinstance(strategy, Strategy):
        return strategy
    if isinstance(strategy, Mapping):
        return Strategy.from_json(strategy)
    file = Path(strategy)
    try:
        document = read_json(file, f"Strategy file {str(file)!r}")
    except OSError as error:
        raise SpecError(
            f"Strategy file {str(file)!r} cannot be read: {error.strerror}; autosync tune finds strategies."
        ) from None
    return Strategy.from_json(document)


def workers_named(strategy: Strategy) -> int | None:
    """Worker processes that the strategy's devices need, when all are CPU devices of one node; otherwise None.

    Raises `SpecError` where they are no devices, or more than a node can have.
    """
    devices = [Device.parse(each) for each in _devices(strategy)]
    if len({each.node for each in devices}) > 1 or any(each.kind == "gpu" for each in devices):
        return None
    count = 1 + max(each.index for each in devices)
    if count > MOST_DEVICES:
        raise SpecError(f"A node has at most {MOST_DEVICES} workers, but the strategy names one numbered {count - 1}.")
    return count


def check_devices(strategy: Strategy, cluster: ClusterSpec) -> None:
    """Raise `TrainingError` when the strategy names devices that the cluster lacks."""
    have = {str(each) for each in (*cluster.server_devices, *cluster.replica_devices)}
    missing = sorted(set(_devices(strategy)) - have)
    if missing:
        raise TrainingError(
            f"A strategy runs on the devices it names, but the cluster has no {listed(missing)}; it has "
            f"{listed(sorted(have))}. Give it the nodes and workers the strategy was found with, or find another "
            "with autosync tune."
        )


def check_factors(strategy: Strategy, model: ModelSpec) -> None:
    """Raise `TrainingError` for sufficient factors of variables whose gradient has none while batches vary in size."""
    wanted = [each.variable for each, _, shard in strategy.shards() if isinstance(shard.compressor, SufficientFactors)]
    if lacking := [name for name in wanted if model.by_name[name].factor_rows is None]:
        raise TrainingError(
            f"Sufficient factors, as for {_few_of(lacking)}, have rows by the batch, whose size must be known; "
            "fix the batch size of the model's inputs (batch_shape), or find a strategy without them."
        )


def renamed_for(strategy: Strategy, variables: Sequence[str], untrained: Sequence[str] = ()) -> Strategy:
    """`strategy` for a model whose trained `variables` are given in order, by the names they have in this process.

    Keras numbers unnamed layers through a counter of the process, and puts a model's own name before those of its
    layers or not, so that `dense/kernel` may be called `sequential_1/dense_4/kernel` here. Such differences are passed
    over where there are no others. Raises `TrainingError` for another model's strategy.
    """
    decided = [each.variable for each in strategy.variables]
    if set(decided) == set(variables):
        return strategy
    if len(decided) == len(variables) and all(map(_is_same, decided, variables)):
        names = dict(zip(decided, variables, strict=True))
        return replace(
            strategy, variables=tuple(replace(each, variable=names[each.variable]) for each in strategy.variables)
        )
    unknown = [each for each in decided if each not in set(variables)]
    undecided = [each for each in variables if each not in set(decided)]
    faults = []
    if unknown:
        idle = "; some of these have no path to the loss" if set(unknown) & set(untrained) else ""
        faults.append(f"it decides {_few_of(unknown)}, which this model does not train{idle}")
    if undecided:
        faults.append(f"this model trains {_few_of(undecided)}, which it does not decide")
    raise TrainingError(
        f"A strategy is found for one model, and this one is another's: {', and '.join(faults)}. "
        "Find one with autosync tune."
    )


def _devices(strategy: Strategy) -> list[str]:
    servers = [each.device for _, _, each in strategy.shards() if isinstance(each, ParameterServer)]
    return [*strategy.replicas, *servers]


def _is_same(one: str, other: str) -> bool:
    """Whether two paths, layers' numbers left out, end alike as far as the shorter one goes."""
    mine, its = (re.sub(r"_\d+(?=/|$)", "", path).split("/") for path in (one, other))
    shared = min(len(mine), len(its))
    return mine[-shared:] == its[-shared:]


def _few_of(names: Sequence[str]) -> str:
    return few_of([cut(each) for each in names])
