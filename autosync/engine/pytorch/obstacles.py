"""The parts of a strategy that another program cannot express."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autosync.errors import SpecError
from autosync.spec import PLAIN, Compressor, ParameterServer, Strategy


def refuse_first(program: str, obstacles: Iterable[str]) -> None:
    """Raise `SpecError` with the first of `obstacles`, which are clauses, if there is any."""
    if (obstacle := next(iter(obstacles), None)) is not None:
        raise SpecError(
            f"{program} cannot carry out this strategy: {obstacle}. Search with --space ddp, or train with "
            "autosync.torch.distribute."
        )


def obstacles_of_variables(
    strategy: Strategy, program: str, algorithms: tuple[str, ...], compressors: tuple[Compressor, ...] = ()
) -> Iterator[str]:
    """The parts that a program cannot express which all-reduces whole variables itself, as clauses.

    It takes variables with one of `algorithms`, and without compressor or with one of `compressors`.
    """
    if strategy.discipline != PLAIN:
        yield "it has a discipline"
    for decision in strategy.variables:
        name = decision.variable
        if decision.partition is not None:
            yield f"variable {name!r} is cut into {decision.partition.shards} shards"
        if decision.rows_apart:
            yield f"the looked-up rows of variable {name!r} are sent apart"
        for shard in decision.distinct:
            if isinstance(shard, ParameterServer):
                yield f"variable {name!r} is on the parameter server {shard.device!r}"
            elif shard.compressor is not None and shard.compressor not in compressors:
                yield f"variable {name!r} is compressed"
            elif shard.algorithm not in algorithms:
                yield f"variable {name!r} is all-reduced by {shard.algorithm!r}, not by {program} itself"
    if strategy.overlap_next_forward:
        yield "its steps overlap with the next forward pass"


def buckets_of(strategy: Strategy) -> list[list[str]]:
    """The names of the variables in each bucket of a strategy that all-reduces whole variables, in graph order."""
    buckets: dict[int, list[str]] = {}
    for decision in strategy.variables:
        for shard in decision.reductions:
            buckets.setdefault(shard.group, []).append(decision.variable)
    return list(buckets.values())
