"""Reads a placed strategy's state into arrays, and loads it back."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autosync.engine.core.step_state import StepState, flatten_shards, join_shards
from autosync.engine.tensorflow.state import RowTable, ValueBlock
from autosync.engine.tensorflow.step.global_gradient_rule import RuleState
from autosync.engine.tensorflow.step.placed_model import Placed
from autosync.engine.tensorflow.step.splitting import Key, key_of
from autosync.engine.tensorflow.sync.parameter_server import SparseServer
from autosync.errors import SpecError
from autosync.layout.shards import Shard
from autosync.numeric import AnyArray


def values_of(placed: Placed, replica: int) -> dict[str, AnyArray]:
    """Return every variable's value as replica `replica` sees it: its own copy of a server's values if it has one."""
    device = placed.devices[replica]
    copies = {
        id(server.block): server.copies.variables[device]
        for server in placed.servers
        if server.copies is not None and device in server.copies.variables
    }
    return _join_variables(placed, replica, lambda held: copies.get(id(held), held.value).numpy())


def state_of(placed: Placed, rule: RuleState, own: Sequence[Any] = ()) -> StepState:
    """Return the state, with the variables `own`. Each TensorFlow variable is fetched once."""
    fetched: dict[int, AnyArray] = {}

    def array(variable: Any) -> AnyArray:
        if id(variable) not in fetched:
            fetched[id(variable)] = variable.numpy()
        return fetched[id(variable)]

    counts = {shards[0].variable.name: _slots_of(placed, shards[0]) for shards in placed.layout.of_variables}
    by_slot = [
        _of_all(placed, lambda held, n=number: array((*held.slots, held.value)[min(n, len(held.slots))]))  # type: ignore[misc]
        for number in range(max(counts.values(), default=0))
    ]
    scalars = {dtype: of_device for (_, dtype), of_device in reversed(placed.scalars.items())}
    return StepState(
        values=_of_all(placed, lambda held: array(held.value)),
        slots={name: tuple(of_slot[name] for of_slot in by_slot[:count]) for name, count in counts.items()},
        scalars={
            dtype: tuple(variable.numpy() for variable in of_dtype.variables) for dtype, of_dtype in scalars.items()
        },
        replica_state=tuple(tuple(variable.numpy() for variable in replica.state) for replica in placed.replicas),
        replica_steps=tuple(int(replica.steps.numpy()) for replica in placed.replicas),
        synchronizer_state=tuple(variable.numpy() for variable in _memory_variables(placed, rule)),
        own=tuple(map(array, own)),
    )


def load_state(placed: Placed, rule: RuleState, state: StepState) -> None:
    """Load `state` into `placed`, on every replica.

    Raises `SpecError` if the state belongs to another model or strategy.
    """
    memory = _memory_variables(placed, rule)
    names = {shards[0].variable.name for shards in placed.layout.of_variables}
    if names != set(state.values) or len(placed.replicas) != len(state.replica_steps):
        raise SpecError(
            f"A saved state fits only its own model and number of replicas. The state has {len(state.values)} "
            f"variables and {len(state.replica_steps)} replicas, but this strategy has {len(names)} and "
            f"{len(placed.replicas)}; load a state of the same model and replicas."
        )
    if [array.shape for array in state.synchronizer_state] != [tuple(variable.shape) for variable in memory]:
        raise SpecError("A saved state of compressors or loss scaling fits only its own strategy; load it there.")
    _put_back(placed, state)
    _fill_copies(placed, state)
    for variable, array in zip(memory, state.synchronizer_state, strict=True):
        variable.assign(array)
    for (_, dtype), scalars in placed.scalars.items():
        for variable, array in zip(scalars.variables, state.scalars[dtype], strict=True):
            variable.assign(array)
    for replica, arrays, steps in zip(placed.replicas, state.replica_state, state.replica_steps, strict=True):
        replica.steps.assign(steps)
        for variable, array in zip(replica.state, arrays, strict=True):
            variable.assign(array)
    placed.wait()


def _memory_variables(placed: Placed, rule: RuleState) -> list[Any]:
    of_exchanges = [variable for memory in placed.memories() for variable in memory.variables]
    return [*of_exchanges, *rule.state]


def _of_all(placed: Placed, array_of: Callable[[ValueBlock | RowTable], AnyArray]) -> dict[str, AnyArray]:
    """Return one of the arrays held for each variable; the mean over replicas if they can have different values."""
    if placed.strategy.discipline.rhythm is None:
        return _join_variables(placed, 0, array_of)
    of_replicas = [_join_variables(placed, replica, array_of) for replica in range(len(placed.replicas))]
    return {
        name: np.mean([arrays[name] for arrays in of_replicas], axis=0, dtype=np.float64).astype(first.dtype)
        for name, first in of_replicas[0].items()
    }


def _holders(placed: Placed, replica: int) -> dict[Key, tuple[ValueBlock | RowTable, int]]:
    """Return the holder of each shard for replica `replica`, and the flat position at which the shard begins there."""
    held: dict[Key, tuple[ValueBlock | RowTable, int]] = {}
    for key, sparse in placed.sparse.items():
        held[key] = (sparse.rows if isinstance(sparse, SparseServer) else sparse.tables[replica], 0)
    blocks = [(server.shards, server.block) for server in placed.servers]
    blocks += [(bundle.shards, bundle.blocks[replica]) for bundle in placed.bundles]
    for shards, block in blocks:
        begin = 0
        for shard in shards:
            held[key_of(shard)] = (block, begin)
            begin += shard.elements
    return held


def _slots_of(placed: Placed, shard: Shard) -> int:
    return len(_holders(placed, 0)[key_of(shard)][0].slots)


def _join_variables(
    placed: Placed, replica: int, array_of: Callable[[ValueBlock | RowTable], AnyArray]
) -> dict[str, AnyArray]:
    """Return one of the arrays held for each variable, joined from its shards. Each array is fetched once."""
    fetched: dict[int, AnyArray] = {}

    def array(shard: Shard) -> AnyArray:
        holder, begin = holders[key_of(shard)]
        if id(holder) not in fetched:
            fetched[id(holder)] = array_of(holder).reshape(-1)
        return np.asarray(fetched[id(holder)][begin : begin + shard.elements].reshape(shard.shape))

    holders = _holders(placed, replica)
    return {
        shards[0].variable.name: join_shards(shards, [array(shard) for shard in shards])
        for shards in placed.layout.of_variables
    }


def _put_back(placed: Placed, state: StepState) -> None:
    """Load values and slots into all their holders."""
    for replica in range(len(placed.replicas)):
        pieces: dict[int, tuple[ValueBlock | RowTable, list[tuple[int, Shard]]]] = {}
        holders = _holders(placed, replica)
        for shards in placed.layout.of_variables:
            for shard in shards:
                holder, begin = holders[key_of(shard)]
                pieces.setdefault(id(holder), (holder, []))[1].append((begin, shard))
        for holder, members in pieces.values():
            on_a_server = replica > 0 and not _is_of_replica(placed, holder)
            if not on_a_server:
                _fill(holder, [shard for _, shard in sorted(members, key=lambda member: member[0])], state)


def _fill_copies(placed: Placed, state: StepState) -> None:
    """Load the servers' values into the replicas' copies."""
    for server in placed.servers:
        if server.copies is not None:
            flat = flatten_shards(server.shards, state.values)
            for variable in server.copies.variables.values():
                variable.assign(flat)


def _is_of_replica(placed: Placed, holder: ValueBlock | RowTable) -> bool:
    """Whether every replica has its own holder like this one; a holder on a server is filled only once."""
    on_servers = {id(server.block) for server in placed.servers}
    on_servers |= {id(sparse.rows) for sparse in placed.sparse.values() if isinstance(sparse, SparseServer)}
    return id(holder) not in on_servers


def _fill(holder: ValueBlock | RowTable, shards: Sequence[Shard], state: StepState) -> None:
    for number, variable in enumerate([holder.value, *holder.slots]):
        names = {shard.variable.name for shard in shards}
        arrays = {name: state.slots[name][number - 1] if number else state.values[name] for name in names}
        variable.assign(flatten_shards(shards, arrays).reshape(tuple(variable.shape)))
