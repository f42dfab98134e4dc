"""Search for the fastest strategy of a transformer in PyTorch, and train it: a language model of characters.

The text is PyTorch's own source code, so nothing is downloaded. A search calls `build`. The rest is a training loop as
users write it, with one line for autosync. In this folder:

    autosync tune --model torch_transformer:build --trials 40 --out runs/transformer
    torchrun --nproc-per-node 4 torch_transformer.py runs/transformer/strategy.json
"""

import inspect
import os
import sys

import torch
from torch import nn

import autosync.torch

CHARACTERS, CONTEXT, WIDTH, BATCH = 128, 64, 128, 16


class CharacterModel(nn.Module):
    """A causal transformer whose output layer shares the weights of its embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(CHARACTERS, WIDTH)
        self.positions = nn.Parameter(torch.zeros(CONTEXT, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT), persistent=False)

    def forward(self, text):
        hidden = self.layers(self.embedding(text) + self.positions, self.mask, is_causal=True)
        return nn.functional.linear(hidden, self.embedding.weight)


def loss_function(outputs, targets):
    return nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def read_text():
    return torch.tensor([min(ord(character), CHARACTERS - 1) for character in inspect.getsource(nn.functional)])


def draw_batch(text, generator):
    starts = torch.randint(len(text) - CONTEXT, (BATCH, 1), generator=generator)
    pieces = text[starts + torch.arange(CONTEXT + 1)]
    return pieces[:, :-1], pieces[:, 1:]


def build():
    """Return the module, the loss, a batch of one replica and the optimizer."""
    torch.manual_seed(0)
    model = CharacterModel()
    batch = draw_batch(read_text(), torch.Generator().manual_seed(0))
    return model, loss_function, batch, torch.optim.AdamW(model.parameters(), lr=1e-3)


def main(strategy="byteps", steps="200"):
    model, _, _, optimizer = build()
    autosync.torch.distribute(model, strategy)
    rank, text = int(os.environ.get("RANK", "0")), read_text()
    generator = torch.Generator().manual_seed(1 + rank)  # each replica draws batches of its own
    for step in range(int(steps)):
        inputs, targets = draw_batch(text, generator)
        optimizer.zero_grad()
        loss = loss_function(model(inputs), targets)
        loss.backward()
        optimizer.step()
        if rank == 0 and (step + 1) % 20 == 0:
            print(f"step {step + 1}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
