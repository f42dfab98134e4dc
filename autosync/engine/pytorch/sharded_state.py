"""The optimizer's state as `torch.distributed.checkpoint` saves it: every rank writes and reads its own elements."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from math import prod
from typing import Any, final

import torch
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType

from autosync.engine.pytorch.holders import HolderUpdates, Segment


@final
class SpreadTensor(torch.Tensor):
    """A flat tensor whose elements are spread over the ranks, for `torch.distributed.checkpoint` only.

    The three methods with odd names are those by which the checkpoint finds the elements, as for a DTensor.
    """

    pieces: dict[int, torch.Tensor]
    """By the number of their first element, the elements of this rank that lie end to end."""

    @staticmethod
    def __new__(cls, elements: int, pieces: dict[int, torch.Tensor]) -> SpreadTensor:
        first = next(iter(pieces.values()))
        made = torch.Tensor._make_wrapper_subclass(cls, (elements,), dtype=first.dtype, device=first.device)
        made.pieces = pieces
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"<{self.shape[0]} elements that are spread over the ranks>"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise RuntimeError("This tensor is spread over the ranks; only torch.distributed.checkpoint can read it.")

    def __create_write_items__(self, fqn: str, _: Any) -> list[WriteItem]:
        return [
            WriteItem(
                MetadataIndex(fqn, chunk.offsets),
                WriteItemType.SHARD,
                tensor_data=TensorWriteData(chunk, TensorProperties(dtype=self.dtype), self.shape),
            )
            for chunk in self.__create_chunk_list__()
        ]

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        return [
            ChunkStorageMetadata(torch.Size([begin]), torch.Size([piece.numel()]))
            for begin, piece in self.pieces.items()
        ]

    def __get_tensor_shard__(self, index: MetadataIndex) -> torch.Tensor:
        assert index.offset is not None
        return self.pieces[index.offset[0]]


@final
class ShardedOptimizerState:
    """The optimizer's state in a form that `torch.distributed.checkpoint` saves and loads, as a `Stateful` object.

    Parameters have their names, and tensors are flat. A checkpoint may be loaded under another strategy and by another
    number of ranks. The settings of parameter groups that are numbers are saved, too.
    """

    def __init__(self, holders: HolderUpdates) -> None:
        self._holders = holders

    def state_dict(self) -> dict[str, Any]:
        """This rank's part of the state, which loading fills in place."""
        self._begin_state()
        entries: dict[str, Any] = {}
        pieces: dict[str, tuple[int, dict[int, torch.Tensor]]] = {}
        state = self._holders.optimizer.state
        for segment, values in self._holders.own:
            for key, value in state.get(values, {}).items():
                name = f"{self._holders.names[segment.parameter]}.{key}"
                if isinstance(value, torch.Tensor) and value.ndim:
                    _, found = pieces.setdefault(name, (segment.parameter.numel(), {}))
                    for begin, first, last in _runs(segment):
                        found[begin] = value[first:last]
                else:
                    entries[name] = value if isinstance(value, torch.Tensor) else torch.tensor(value)
        for parameter in self._holders.replicated:
            for key, value in state.get(parameter, {}).items():
                name = f"{self._holders.names[parameter]}.{key}"
                entries[name] = value if isinstance(value, torch.Tensor) else torch.tensor(value)
        spread = {name: SpreadTensor(elements, found) for name, (elements, found) in pieces.items()}
        return {"state": entries | spread, "settings": dict(self._settings())}

    def load_state_dict(self, loaded: dict[str, Any]) -> None:
        """Take the numbers that were loaded; tensors were filled in place."""
        state = self._holders.optimizer.state
        held = [(segment.parameter, values) for segment, values in self._holders.own]
        for parameter, values in [*held, *((parameter, parameter) for parameter in self._holders.replicated)]:
            for key, value in state.get(values, {}).items():
                found = loaded["state"][f"{self._holders.names[parameter]}.{key}"]
                if not isinstance(value, torch.Tensor):
                    state[values][key] = found.item()
                elif not value.ndim:
                    value.copy_(found)
        for number, group in enumerate(self._holders.optimizer.param_groups):
            for key, value in group.items():
                found = [loaded["settings"][f"{number}.{key}.{place}"] for place in range(len(_numbers(key, value)))]
                if not found:
                    continue
                if isinstance(value, torch.Tensor):
                    value.copy_(found[0])
                elif isinstance(value, tuple):
                    group[key] = tuple(type(old)(new.item()) for old, new in zip(value, found, strict=True))
                else:
                    group[key] = type(value)(found[0].item())

    def _settings(self) -> Iterator[tuple[str, torch.Tensor]]:
        for number, group in enumerate(self._holders.optimizer.param_groups):
            for key, value in group.items():
                for place, item in enumerate(_numbers(key, value)):
                    yield f"{number}.{key}.{place}", torch.as_tensor(item, dtype=torch.float64).clone()

    def _begin_state(self) -> None:
        """Have the optimizer make its state, which most optimizers do in their first step only."""
        optimizer = self._holders.optimizer
        if optimizer.state:
            return
        values = [values for group in optimizer.param_groups for values in group["params"] if values.requires_grad]
        if any(value.grad is not None for value in values):
            raise RuntimeError("Save and load the optimizer's state between steps, not between backward() and step().")
        before = [value.detach().clone() for value in values]
        settings = [copy.copy(group["lr"]) for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["lr"] = torch.zeros_like(group["lr"]) if isinstance(group["lr"], torch.Tensor) else 0.0
        for value in values:
            value.grad = torch.zeros_like(value)
        optimizer.step()
        for group, rate in zip(optimizer.param_groups, settings, strict=True):
            group["lr"] = rate
        with torch.no_grad():
            for value, old in zip(values, before, strict=True):
                value.copy_(old)
                value.grad = None


def _numbers(key: str, value: Any) -> tuple[Any, ...]:
    """The numbers in a setting of a parameter group."""
    if key == "params":
        return ()
    items = value if isinstance(value, tuple) else (value,)
    return items if all(isinstance(item, bool | int | float | torch.Tensor) for item in items) else ()


def _runs(segment: Segment) -> Iterator[tuple[int, int, int]]:
    """The elements of a segment that lie end to end in the whole parameter: (first there, first and end here)."""
    part = segment.part.slice
    shape = segment.parameter.shape
    row = prod(shape[part.axis + 1 :])
    run, whole = (
        part.size * row,
        shape[part.axis] * row,
    )  # elements of the slice and of the parameter for an outer index
    position = segment.begin
    while position < segment.end:
        outer, inside = divmod(position, run)
        end = min(segment.end, (outer + 1) * run)
        yield outer * whole + part.start * row + inside, position - segment.begin, end - segment.begin
        position = end
