"""The recurrent network: a bidirectional LSTM over variables in graph order, shards pooled into their variable."""

from typing import final

import torch

from autosync.simulator.encoding import VARIABLE_INPUTS
from autosync.simulator.inputs import Detail, Inputs
from autosync.simulator.networks.head import ResidualHead, embedding
from autosync.simulator.networks.linear import LinearResidual
from autosync.simulator.networks.network import Network, torch_network
from autosync.simulator.settings import TrainingSettings

WIDTH = 24


@final
class RecurrentResidual(LinearResidual):
    """The linear network plus an LSTM's states, as mean and maximum over variables."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = embedding(len(VARIABLE_INPUTS), WIDTH)
        self.lstm = torch.nn.LSTM(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.head = ResidualHead(4 * WIDTH, WIDTH)

    def forward(self, inputs: Inputs) -> torch.Tensor:
        lengths = inputs.lengths
        encoded = torch.zeros(len(inputs), 4 * WIDTH, dtype=inputs.pooled.dtype)
        # Batch strategies by their number of variables, so that no padding is needed.
        for length in torch.unique(lengths).tolist():
            chosen = torch.nonzero(lengths == length)[:, 0]
            rows = torch.stack([inputs.variables[place] for place in chosen.tolist()])
            states = self.lstm(self.embed(rows))[0]
            encoded = encoded.index_add(0, chosen, torch.cat([states.mean(dim=1), states.amax(dim=1)], dim=1))
        return super().forward(inputs) + self.head(encoded, inputs.pooled)


def rnn() -> Network:
    settings = TrainingSettings(members=4, steps=200, epochs=30, batch=48, learning_rate=0.006)
    return torch_network(Detail.VARIABLES, settings, RecurrentResidual)
