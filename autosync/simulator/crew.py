"""Processes that fit one simulator together: each has the inputs of some records, and all get the same parameters."""

from typing import Any, Protocol, final

import torch


class Crew(Protocol):
    """What a process of a crew can ask of the others. Every process asks the same things in the same order."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def summed(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum of what all processes gave, on each."""
        ...

    def all_of(self, what: Any) -> list[Any]:
        """What each process gave, in the order of their ranks."""
        ...


@final
class Alone:
    """One process."""

    rank, size = 0, 1

    def summed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def all_of(self, what: Any) -> list[Any]:
        return [what]


ALONE = Alone()


@final
class TorchCrew:
    """The processes of torch's default group, which someone has made."""

    @property
    def rank(self) -> int:
        return torch.distributed.get_rank()

    @property
    def size(self) -> int:
        return torch.distributed.get_world_size()

    def summed(self, tensor: torch.Tensor) -> torch.Tensor:
        found = tensor.detach().clone().contiguous()
        torch.distributed.all_reduce(found)
        return found

    def all_of(self, what: Any) -> list[Any]:
        found: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(found, what)
        return found
