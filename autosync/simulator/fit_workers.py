"""Processes that fit one simulator together: each holds the inputs of some records, and all get the same parameters."""

from typing import Any, Protocol, final

import torch


class FitWorkers(Protocol):
    """The collective operations of fit workers. Every process must call the same operations in the same order."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def all_reduce(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the sum of all processes' tensors, on each process."""
        ...

    def all_gather(self, value: Any) -> list[Any]:
        """Return the objects of all processes, in the order of their ranks."""
        ...


@final
class SingleWorker:
    """A single process."""

    rank, size = 0, 1

    def all_reduce(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def all_gather(self, value: Any) -> list[Any]:
        return [value]


SINGLE_WORKER = SingleWorker()


@final
class TorchFitWorkers:
    """The processes of torch's default group, which must exist."""

    @property
    def rank(self) -> int:
        return torch.distributed.get_rank()

    @property
    def size(self) -> int:
        return torch.distributed.get_world_size()

    def all_reduce(self, tensor: torch.Tensor) -> torch.Tensor:
        total = tensor.detach().clone().contiguous()
        torch.distributed.all_reduce(total)
        return total

    def all_gather(self, value: Any) -> list[Any]:
        gathered: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(gathered, value)
        return gathered
