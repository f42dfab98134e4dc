"""The decoder-only language model in PyTorch, as `autosync.zoo.language` describes it."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn

from autosync.zoo.batches import next_word_batch
from autosync.zoo.sizes import LANGUAGE_MODELS, LanguageModelSize
from autosync.zoo.torch.parts import SEED, Parts, tensors_of, word_loss
from autosync.zoo.torch.transformer import TransformerLayer

EPSILON = 1e-5
"""Added to variances in normalization."""


class LanguageModel(nn.Module):
    """A causal Transformer; only the looked-up rows of its input table have gradients."""

    def __init__(self, size: LanguageModelSize) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width, sparse=True)
        self.positions = nn.Parameter(torch.empty(size.sequence, size.width))
        self.layers = nn.ModuleList(
            TransformerLayer(size.width, size.heads, size.dropout, EPSILON, is_decoder=True) for _ in range(size.layers)
        )
        self.norm = nn.LayerNorm(size.width, EPSILON)
        self.output = nn.Linear(size.width, size.vocabulary, bias=False)
        for table in (self.tokens.weight, self.positions):
            nn.init.normal_(table, std=size.width**-0.5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits (examples, tokens, vocabulary) of each next token."""
        hidden = self.tokens(tokens) + self.positions
        for layer in self.layers:
            hidden = layer(hidden)
        return self.output(self.norm(hidden))


def module_of(name: str) -> nn.Module:
    """The module called `name`, one of `LANGUAGE_MODELS`."""
    return LanguageModel(LANGUAGE_MODELS[name])


def batch_of(name: str) -> tuple[Any, Any]:
    """(inputs, targets) of the model called `name`."""
    return tensors_of(next_word_batch(SEED, LANGUAGE_MODELS[name]))


def _build(name: str) -> Parts:
    """It trains by Adagrad, because PyTorch's Adam takes no sparse gradients."""
    module = module_of(name)
    optimizer = torch.optim.Adagrad(module.parameters(), LANGUAGE_MODELS[name].learning_rate)
    return module, word_loss, batch_of(name), optimizer


transformer_lm = partial(_build, "transformer-lm")
transformer_lm_mini = partial(_build, "transformer-lm-mini")
