"""Tied tables whose looked-up rows are sent apart, laid out as two variables: a dense one, and one with sparse rows.

A tied table is looked up early in the forward pass, and later read as a whole. So the gradient of the whole read is
ready early in the backward pass, and the few rows of the lookups late. The next lookup reads values that both have
updated, so both have to arrive before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import chain, combinations

from autosync.errors import SpecError
from autosync.spec import (
    AllReduce,
    DeviceProfile,
    ModelProfile,
    ModelSpec,
    Strategy,
    Variable,
    VariableStrategy,
)

ROWS = " (rows)"
"""The end of the name of a table's looked-up rows."""

NO_BUCKET = AllReduce(1 << 30)
"""The synchronizer of rows, which all replicas gather outside buckets."""


def rows_of(table: str) -> str:
    """The name of the variable that stands for the looked-up rows of `table`."""
    return table + ROWS


def table_of(name: str) -> str:
    """The table of a variable called `name`: itself, or the table whose rows it stands for."""
    return name.removesuffix(ROWS)


def apart(model: ModelSpec, strategy: Strategy) -> tuple[ModelSpec, Strategy]:
    """The model and the strategy with each table whose rows are sent apart as two variables, the rows after the table.

    These are the arguments themselves if no rows are apart. Raises `SpecError` as `split_model` does.
    """
    tables = strategy.rows_apart
    return (split_model(model, tables), split_strategy(strategy)) if tables else (model, strategy)


def split_strategy(strategy: Strategy) -> Strategy:
    """The strategy for the split model."""
    if not strategy.rows_apart:
        return strategy
    return replace(strategy, variables=tuple(chain.from_iterable(map(_split_decision, strategy.variables))))


@lru_cache(maxsize=1 << 12)
def _split_decision(decision: VariableStrategy) -> tuple[VariableStrategy, ...]:
    if not decision.rows_apart:
        return (decision,)
    return replace(decision, rows_apart=False), VariableStrategy(rows_of(decision.variable), (NO_BUCKET,))


@lru_cache(maxsize=32)
def split_model(model: ModelSpec, tables: tuple[str, ...]) -> ModelSpec:
    """The model with each of the `tables` as two variables, cached for recent models.

    Without a profile of uses, which older records lack, the rows of a table count as one row that is ready as late as
    the table, and the table keeps its place. Raises `SpecError` if the model lacks a table, or if it is not tied.
    """
    has_uses = model.profile is not None and model.profile.uses is not None
    known = model.weight_tied_tables if has_uses else tuple(model.by_name)
    if unlike := [table for table in tables if table not in known]:
        raise SpecError(f"Variable {unlike[0]!r} of model {model.name!r} is no tied table; set rows_apart to false.")
    for table in tables:
        model = _split(model, table)
    return model


def splits_of(model: ModelSpec) -> Iterator[ModelSpec]:
    """The model itself, and the model with the rows of some or all of its tied tables apart."""
    tables = model.weight_tied_tables
    for count in range(len(tables) + 1):
        for chosen in combinations(tables, count):
            yield split_model(model, chosen)


def _split(model: ModelSpec, table: str) -> ModelSpec:
    """The model with one table as two variables."""
    profile, device, whole = model.profile, model.device_profile, model.by_name[table]
    touched, before = 1.0, whole.ready_order
    if profile is not None:
        uses = [use for use in profile.uses or () if use.variable == table]
        dense = max((use.ready for use in uses if use.rows is None), default=1.0)
        touched = min(float(whole.shape[0]), sum(use.rows for use in uses if use.rows is not None) or 1.0)
        # In the order of gradients, the dense part goes in front of all that are ready later.
        later = [variable.ready_order for variable in model.variables if profile.ready[variable.name] > dense]
        before = min(later, default=before)
        profile = _split_profile(profile, table, dense)
        device = None if device is None else _split_device(device, table, dense)
    rows = Variable(rows_of(table), whole.shape, whole.dtype, whole.ready_order, sparse=True, rows_per_step=touched)
    variables = list[Variable]()
    for variable in model.variables:
        variables += [variable, rows] if variable is whole else [variable]

    def place(variable: Variable) -> float:
        return min(before, variable.ready_order) - 0.5 if variable is whole else variable.ready_order

    numbers = {variable.name: number for number, variable in enumerate(sorted(variables, key=place))}
    ordered = tuple(replace(variable, ready_order=numbers[variable.name]) for variable in variables)
    return replace(model, variables=ordered, profile=profile, device_profile=device)


def _split_profile(profile: ModelProfile, table: str, dense: float) -> ModelProfile:
    """The profile with the rows as ready as the table was, and the table as ready as its `dense` part."""
    ready, read = dict(profile.ready), None if profile.read is None else dict(profile.read)
    ready[rows_of(table)], ready[table] = ready[table], min(dense, ready[table])
    if read is not None:
        read[rows_of(table)] = read[table]
    uses = tuple(use for use in profile.uses or () if use.variable != table)
    return replace(profile, ready=ready, read=read, uses=uses or None)


def _split_device(device: DeviceProfile, table: str, dense: float) -> DeviceProfile:
    """The same for a device, on which only the whole table was measured: its dense part is ready at the same share."""
    ready, read = dict(device.ready_seconds), None if device.read_seconds is None else dict(device.read_seconds)
    ready[rows_of(table)] = ready[table]
    ready[table] = min(dense * device.backward_seconds, ready[table])
    if read is not None:
        read[rows_of(table)] = read[table]
    return replace(device, ready_seconds=ready, read_seconds=read)
