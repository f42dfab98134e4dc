"""Reads a strategy from the user's argument, and checks the strategy for the model and the cluster."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autosync.baselines import baselines_for
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
    read_json,
    shorten_list,
)
from autosync.words.quantities import few_of


def read_strategy(strategy: Strategy | Mapping[str, Any] | str | os.PathLike[str]) -> Strategy:
    """Return the strategy, read from its JSON document or a file if needed. Raises `SpecError`."""
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


def read_strategy_or_baseline(
    given: Strategy | Mapping[str, Any] | str | os.PathLike[str], framework: str
) -> Strategy | str:
    """Return the strategy as `read_strategy` does, or the name of a baseline of the engine `framework`.

    Raises `SpecError`.
    """
    if isinstance(given, str):
        known = baselines_for(framework)
        if given in known:
            return given
        if given.isidentifier() and not Path(given).exists():
            raise SpecError(
                f"{given!r} is neither a strategy file nor a baseline; the baselines are {', '.join(known)}."
            )
    return read_strategy(given)


def workers_named(strategy: Strategy) -> int | None:
    """Return the number of worker processes that the strategy needs if all its devices are CPU devices of one node,
    else None.

    Raises `SpecError` for invalid devices, or more workers than a node can have.
    """
    devices = [Device.parse(device) for device in _devices(strategy)]
    if len({device.node for device in devices}) > 1 or any(device.kind == "gpu" for device in devices):
        return None
    count = 1 + max(device.index for device in devices)
    if count > MOST_DEVICES:
        raise SpecError(f"A node has at most {MOST_DEVICES} workers, but the strategy names one numbered {count - 1}.")
    return count


def check_devices(strategy: Strategy, cluster: ClusterSpec) -> None:
    """Raise `TrainingError` if the strategy names devices that the cluster lacks."""
    have = {str(device) for device in (*cluster.server_devices, *cluster.replica_devices)}
    missing = sorted(set(_devices(strategy)) - have)
    if missing:
        raise TrainingError(
            f"A strategy runs on the devices it names, but the cluster has no {shorten_list(missing)}; it has "
            f"{shorten_list(sorted(have))}. Give it the nodes and workers the strategy was found with, or find another "
            "with autosync tune."
        )


def check_factors(strategy: Strategy, model: ModelSpec) -> None:
    """Raise `TrainingError` for sufficient factors of variables whose number of factor rows varies with the batch."""
    with_factors = [
        entry.variable for entry, _, shard in strategy.shards() if isinstance(shard.compressor, SufficientFactors)
    ]
    if lacking := [name for name in with_factors if model.by_name[name].factor_rows is None]:
        raise TrainingError(
            f"Sufficient factors, as for {_few_of(lacking)}, have one row an example, so the batch size must be known; "
            "fix the batch size of the model's inputs (batch_shape), or find a strategy without them."
        )


def rename_for(strategy: Strategy, variables: Sequence[str], untrained: Sequence[str] = ()) -> Strategy:
    """Return `strategy` with its variables renamed to the model's trained `variables`, which are in order.

    Keras numbers unnamed layers with a counter of the process, and may put the model's own name before those of its
    layers: `dense/kernel` may be called `sequential_1/dense_4/kernel` here. Such differences are ignored if they are
    the only ones. Raises `TrainingError` for another model's strategy.
    """
    decided = [entry.variable for entry in strategy.variables]
    if set(decided) == set(variables):
        return strategy
    if len(decided) == len(variables) and all(map(_is_same, decided, variables)):
        names = dict(zip(decided, variables, strict=True))
        return replace(
            strategy, variables=tuple(replace(entry, variable=names[entry.variable]) for entry in strategy.variables)
        )
    unknown = [name for name in decided if name not in set(variables)]
    undecided = [name for name in variables if name not in set(decided)]
    faults = []
    if unknown:
        idle = "; some of these have no path to the loss" if set(unknown) & set(untrained) else ""
        faults.append(f"it decides {_few_of(unknown)}, which this model does not train{idle}")
    if undecided:
        faults.append(f"this model trains {_few_of(undecided)}, which it does not decide")
    raise TrainingError(
        f"A strategy belongs to one model, and this strategy is another model's: {', and '.join(faults)}. "
        "Find a strategy for this model with autosync tune."
    )


def _devices(strategy: Strategy) -> list[str]:
    servers = [shard.device for _, _, shard in strategy.shards() if isinstance(shard, ParameterServer)]
    return [*strategy.replicas, *servers]


def _is_same(first: str, second: str) -> bool:
    """True if two paths without layer numbers end alike, over the length of the shorter path."""
    layers, other_layers = (re.sub(r"_\d+(?=/|$)", "", path).split("/") for path in (first, second))
    shared = min(len(layers), len(other_layers))
    return layers[-shared:] == other_layers[-shared:]


def _few_of(names: Sequence[str]) -> str:
    return few_of([cut(name) for name in names])
