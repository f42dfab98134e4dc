"""The perceptron: pooled inputs through a hidden layer. A control: what the linear network reads, but for the line."""

from typing import final

import torch

from autosync.simulator.inputs import Detail, Inputs
from autosync.simulator.networks.head import ResidualHead
from autosync.simulator.networks.linear import LinearResidual
from autosync.simulator.networks.network import Network, torch_network
from autosync.simulator.settings import TrainingSettings

WIDTH = 32


@final
class PerceptronResidual(LinearResidual):
    """The linear network, plus a small perceptron over the same inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.head = ResidualHead(0, WIDTH)

    def forward(self, inputs: Inputs) -> torch.Tensor:
        return super().forward(inputs) + self.head(inputs.pooled[:, :0], inputs.pooled)


def mlp() -> Network:
    settings = TrainingSettings(members=4, steps=200, epochs=30, batch=48, learning_rate=0.006)
    return torch_network(Detail.POOLED, settings, PerceptronResidual)
