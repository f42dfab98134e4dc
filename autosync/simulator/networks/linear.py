"""The linear network: a weighted sum of pooled inputs."""

import torch

from autosync.simulator.encoding import POOLED_INPUTS
from autosync.simulator.inputs import Detail, Inputs
from autosync.simulator.networks.network import Network, torch_network
from autosync.simulator.settings import TrainingSettings


class LinearResidual(torch.nn.Module):
    """Starts at zero, so that an untrained network adds nothing. Other networks add to its output."""

    def __init__(self) -> None:
        super().__init__()
        self.skip = torch.nn.Linear(len(POOLED_INPUTS), 1, bias=False)
        self.level = torch.nn.Parameter(torch.zeros(()))
        torch.nn.init.zeros_(self.skip.weight)

    def forward(self, inputs: Inputs) -> torch.Tensor:
        return (inputs.pooled @ self.skip.weight.T)[:, 0] + self.level


def linear() -> Network:
    # At least one epoch: with very many records, the steps alone would skip some.
    return torch_network(Detail.POOLED, TrainingSettings(epochs=1), LinearResidual)
