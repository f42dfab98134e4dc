"""The last part of a network: computes a residual from an encoded strategy and the pooled inputs."""

from typing import final

import torch

from autosync.simulator.encoding import POOLED_INPUTS


@final
class ResidualHead(torch.nn.Module):
    """A weighted sum of the pooled inputs, plus a small perceptron over the pooled and `size` encoded inputs.

    The output starts at zero, so that an untrained network adds nothing to the base.
    """

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.hidden = torch.nn.Linear(size + len(POOLED_INPUTS), width)
        self.out = torch.nn.Linear(width, 1, bias=False)
        torch.nn.init.zeros_(self.out.weight)

    def forward(self, encoded: torch.Tensor, pooled: torch.Tensor) -> torch.Tensor:
        """Return residuals from encoded strategies and pooled inputs: (n, size), (n, p) -> (n,)."""
        hidden = torch.nn.functional.silu(self.hidden(torch.cat([encoded, pooled], dim=1)))
        return self.out(hidden)[:, 0]


def embedding(size: int, width: int) -> torch.nn.Module:
    """Return one layer over normalized inputs."""
    return torch.nn.Sequential(torch.nn.Linear(size, width), torch.nn.SiLU())


def pool_by_owner(rows: torch.Tensor, owners: torch.Tensor, count: int) -> torch.Tensor:
    """Return mean and maximum of each owner's rows: (rows, w), int64 (rows,) -> (count, 2 w); 0 for an owner without
    rows.
    """
    width = rows.shape[1]
    sizes = torch.bincount(owners, minlength=count).clamp(min=1).to(rows.dtype)
    mean = torch.zeros(count, width, dtype=rows.dtype).index_add(0, owners, rows) / sizes[:, None]
    place = owners[:, None].expand(-1, width)
    largest = torch.zeros(count, width, dtype=rows.dtype).scatter_reduce(0, place, rows, "amax", include_self=False)
    return torch.cat([mean, largest], dim=1)
