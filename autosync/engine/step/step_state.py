"""A step's state as arrays: read from where a strategy keeps it, and put back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autosync.engine.state import Block, Rows
from autosync.engine.step.correction import RuleState
from autosync.engine.step.placed import Placed
from autosync.engine.step.splitting import Key, key_of
from autosync.engine.sync.parameter_server import SparseServer
from autosync.errors import SpecError
from autosync.layout.shards import Shard

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class StepState:
    """Everything the next step depends on.

    `values` and `slots` are kept by variable, in its shape; `scalars` (iteration, learning rate) by dtype.
    `replica_state` is what each replica keeps for itself and does not train, `replica_steps` how many synthetic batches
    each has drawn. `synchronizer_state` is what compressors and loss scaling remember; it means something to the same
    strategy only. So do the last two. Where replicas may have values of their own, `own` is each one's values and
    slots as it keeps them, with what is remembered of meetings, and `values` and `slots` are their means; where `own`
    is empty, all have those. `controller` is the state of what decides a discipline's steps.
    """

    values: dict[str, Array]
    slots: dict[str, tuple[Array, ...]]
    scalars: dict[str, tuple[Array, ...]]
    replica_state: tuple[tuple[Array, ...], ...]
    replica_steps: tuple[int, ...]
    synchronizer_state: tuple[Array, ...]
    own: tuple[Array, ...] = ()
    controller: Mapping[str, Any] | None = None


def values_of(placed: Placed, replica: int) -> dict[str, Array]:
    """Every variable's value as replica `replica` sees it: in its own copy, where a server keeps it up to date."""
    device = placed.devices[replica]
    copies = {
        id(server.block): server.copies.variables[device]
        for server in placed.servers
        if server.copies is not None and device in server.copies.variables
    }
    return _gathered(placed, replica, lambda held: copies.get(id(held), held.value).numpy())


def state_of(placed: Placed, rule: RuleState, own: Sequence[Any] = ()) -> StepState:
    """The state, with the variables `own`; each variable is fetched once."""
    fetched: dict[int, Array] = {}

    def array(variable: Any) -> Array:
        if id(variable) not in fetched:
            fetched[id(variable)] = variable.numpy()
        return fetched[id(variable)]

    counts = {shards[0].variable.name: _slots_of(placed, shards[0]) for shards in placed.layout.of_variables}
    by_slot = [
        _of_all(placed, lambda held, n=number: array((*held.slots, held.value)[min(n, len(held.slots))]))  # type: ignore[misc]
        for number in range(max(counts.values(), default=0))
    ]
    scalars = {dtype: each for (_, dtype), each in reversed(placed.scalars.items())}
    return StepState(
        values=_of_all(placed, lambda held: array(held.value)),
        slots={name: tuple(of_slot[name] for of_slot in by_slot[:count]) for name, count in counts.items()},
        scalars={dtype: tuple(each.numpy() for each in of.variables) for dtype, of in scalars.items()},
        replica_state=tuple(tuple(each.numpy() for each in replica.state) for replica in placed.replicas),
        replica_steps=tuple(int(replica.steps.numpy()) for replica in placed.replicas),
        synchronizer_state=tuple(each.numpy() for each in _remembered(placed, rule)),
        own=tuple(map(array, own)),
    )


def load_state(placed: Placed, rule: RuleState, state: StepState) -> None:
    """Put `state` where `placed` keeps it, on every replica.

    Raises `SpecError` when it is of another model or strategy.
    """
    remembered = _remembered(placed, rule)
    names = {shards[0].variable.name for shards in placed.layout.of_variables}
    if names != set(state.values) or len(placed.replicas) != len(state.replica_steps):
        raise SpecError(
            f"A saved state fits the model and number of replicas it was saved with, but it has {len(state.values)} "
            f"variables and {len(state.replica_steps)} replicas where {len(names)} and {len(placed.replicas)} are "
            "wanted."
        )
    if [each.shape for each in state.synchronizer_state] != [tuple(each.shape) for each in remembered]:
        raise SpecError("A saved state of compressors or loss scaling fits the strategy it was saved with only.")
    _put_back(placed, state)
    _fill_copies(placed, state)
    for variable, array in zip(remembered, state.synchronizer_state, strict=True):
        variable.assign(array)
    for (_, dtype), scalars in placed.scalars.items():
        for variable, array in zip(scalars.variables, state.scalars[dtype], strict=True):
            variable.assign(array)
    for replica, arrays, steps in zip(placed.replicas, state.replica_state, state.replica_steps, strict=True):
        replica.steps.assign(steps)
        for variable, array in zip(replica.state, arrays, strict=True):
            variable.assign(array)
    placed.wait()


def _remembered(placed: Placed, rule: RuleState) -> list[Any]:
    of_exchanges = [variable for memory in placed.memories() for variable in memory.variables]
    return [*of_exchanges, *rule.state]


def _of_all(placed: Placed, array_of: Callable[[Block | Rows], Array]) -> dict[str, Array]:
    """One of the arrays held for each variable: all replicas' mean where they have values of their own."""
    if placed.strategy.discipline.rhythm is None:
        return _gathered(placed, 0, array_of)
    of_replicas = [_gathered(placed, replica, array_of) for replica in range(len(placed.replicas))]
    return {
        name: np.mean([each[name] for each in of_replicas], axis=0, dtype=np.float64).astype(first.dtype)
        for name, first in of_replicas[0].items()
    }


def _holders(placed: Placed, replica: int) -> dict[Key, tuple[Block | Rows, int]]:
    """The holder of each shard as replica `replica` sees it, and the flat position at which the shard begins there."""
    held: dict[Key, tuple[Block | Rows, int]] = {}
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


def _gathered(placed: Placed, replica: int, array_of: Callable[[Block | Rows], Array]) -> dict[str, Array]:
    """One of the arrays held for each variable, put together from its shards. Each array is fetched once."""
    fetched: dict[int, Array] = {}

    def array(shard: Shard) -> Array:
        holder, begin = holders[key_of(shard)]
        if id(holder) not in fetched:
            fetched[id(holder)] = array_of(holder).reshape(-1)
        return np.asarray(fetched[id(holder)][begin : begin + shard.elements].reshape(shard.shape))

    holders = _holders(placed, replica)
    return {
        shards[0].variable.name: _joined(shards, [array(each) for each in shards])
        for shards in placed.layout.of_variables
    }


def _joined(shards: Sequence[Shard], arrays: Sequence[Array]) -> Array:
    return np.concatenate(arrays, shards[0].slice.axis) if len(shards) > 1 else arrays[0].copy()


def _put_back(placed: Placed, state: StepState) -> None:
    """Give values and slots to all who hold them."""
    for replica in range(len(placed.replicas)):
        pieces: dict[int, tuple[Block | Rows, list[tuple[int, Shard]]]] = {}
        holders = _holders(placed, replica)
        for shards in placed.layout.of_variables:
            for shard in shards:
                holder, begin = holders[key_of(shard)]
                pieces.setdefault(id(holder), (holder, []))[1].append((begin, shard))
        for holder, members in pieces.values():
            on_a_server = replica > 0 and not _is_of_replica(placed, holder)
            if not on_a_server:
                _fill(holder, [shard for _, shard in sorted(members, key=lambda each: each[0])], state)


def _fill_copies(placed: Placed, state: StepState) -> None:
    """Give the replicas what their servers hold."""
    for server in placed.servers:
        if server.copies is not None:
            flat = _flat(server.shards, state.values)
            for variable in server.copies.variables.values():
                variable.assign(flat)


def _is_of_replica(placed: Placed, holder: Block | Rows) -> bool:
    """Whether every replica has one of these; what is on a server is filled once."""
    on_servers = {id(each.block) for each in placed.servers}
    on_servers |= {id(each.rows) for each in placed.sparse.values() if isinstance(each, SparseServer)}
    return id(holder) not in on_servers


def _fill(holder: Block | Rows, shards: Sequence[Shard], state: StepState) -> None:
    for number, variable in enumerate([holder.value, *holder.slots]):
        names = {shard.variable.name for shard in shards}
        arrays = {name: state.slots[name][number - 1] if number else state.values[name] for name in names}
        variable.assign(_flat(shards, arrays).reshape(tuple(variable.shape)))


def _flat(shards: Sequence[Shard], arrays: Mapping[str, Array]) -> Array:
    """Shards of `arrays`, by variable, end to end."""
    return np.concatenate([_piece(arrays[shard.variable.name], shard).reshape(-1) for shard in shards])


def _piece(array: Array, shard: Shard) -> Array:
    if not shard.shape:
        return array
    where = [slice(None)] * array.ndim
    where[shard.slice.axis] = slice(shard.slice.start, shard.slice.start + shard.slice.size)
    return np.asarray(array[tuple(where)])
