"""The deep-sets network (Zaheer et al. 2017): variables as a set. A control: what the RNN reads, but for the order."""

from typing import final

import torch

from autosync.simulator.encoding import VARIABLE_INPUTS
from autosync.simulator.inputs import Detail, Inputs
from autosync.simulator.networks.head import ResidualHead, embedding, pooled_over
from autosync.simulator.networks.linear import LinearResidual
from autosync.simulator.networks.network import Network, torch_network
from autosync.simulator.settings import TrainingSettings

WIDTH = 32


@final
class SetResidual(LinearResidual):
    """The linear network, plus what is made of each variable by itself, its mean and maximum over variables."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Sequential(embedding(len(VARIABLE_INPUTS), WIDTH), embedding(WIDTH, WIDTH))
        self.head = ResidualHead(2 * WIDTH, WIDTH)

    def forward(self, inputs: Inputs) -> torch.Tensor:
        owners = torch.repeat_interleave(torch.arange(len(inputs)), inputs.lengths)
        encoded = pooled_over(self.embed(torch.cat(inputs.variables)), owners, len(inputs))
        return super().forward(inputs) + self.head(encoded, inputs.pooled)


def deepsets() -> Network:
    settings = TrainingSettings(members=4, steps=200, epochs=30, batch=48, learning_rate=0.006)
    return torch_network(Detail.VARIABLES, settings, SetResidual)
