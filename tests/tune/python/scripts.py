"""Scripts of a user, which call autosync."""

from __future__ import annotations

MODEL = """
import torch
from torch import nn

import autosync

WIDTH = 32


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(16, WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, inputs):
        return self.last(torch.relu(self.first(inputs)))


def build():
    module = Net()
    batch = torch.randn(8, 16), torch.randint(3, (8,))
    return module, nn.functional.cross_entropy, batch, torch.optim.SGD(module.parameters(), lr=0.1)


SMALL = dict(workers=2, warmup_steps=2, timed_steps=5, rounds=1, probe=False, simulator="analytic", data="data")
"""
"""A model in `__main__`, and the options of a short search."""
