"""BERT in PyTorch, as `autosync.zoo.bert` describes it."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from autosync.zoo.batches import classifier_batch, pretraining_batch
from autosync.zoo.sizes import BERT, CLASSES, SEGMENTS, BertSize
from autosync.zoo.torch.parts import SEED, Parts, dropout, tensors_of, word_loss
from autosync.zoo.torch.transformer import TransformerLayer

EPSILON = 1e-12
"""Added to variances in normalization."""


class BertEncoder(nn.Module):
    """The embeddings and the layers of BERT."""

    def __init__(self, size: BertSize, is_sparse: bool) -> None:
        """`is_sparse`: the gradient of the token table has its touched rows only."""
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width, sparse=is_sparse)
        self.positions = nn.Parameter(torch.empty(size.sequence, size.width))
        self.segments = nn.Linear(SEGMENTS, size.width, bias=False)
        self.norm, self.dropout = nn.LayerNorm(size.width, EPSILON), dropout(size.dropout)
        self.layers = nn.ModuleList(
            TransformerLayer(size.width, size.heads, size.dropout, EPSILON, is_decoder=False)
            for _ in range(size.layers)
        )

    def encode(self, tokens: torch.Tensor, segments: torch.Tensor) -> torch.Tensor:
        """Hidden vectors (examples, tokens, width)."""
        one_hot = F.one_hot(segments, SEGMENTS).to(self.positions.dtype)
        hidden = self.dropout(self.norm(self.tokens(tokens) + self.positions + self.segments(one_hot)))
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden


class MaskedLanguageModel(BertEncoder):
    """BERT that predicts masked words, whose output layer has the token table as its weights."""

    def __init__(self, size: BertSize) -> None:
        super().__init__(size, is_sparse=False)
        self.head, self.head_norm = nn.Linear(size.width, size.width), nn.LayerNorm(size.width, EPSILON)
        self.decoder = nn.Linear(size.width, size.vocabulary)
        self.decoder.weight = self.tokens.weight
        _initialize(self)

    def forward(self, tokens: torch.Tensor, segments: torch.Tensor, masked: torch.Tensor) -> torch.Tensor:
        """Logits (examples, masked tokens, vocabulary) at the positions `masked`."""
        hidden = self.encode(tokens, segments)
        hidden = torch.gather(hidden, 1, masked[..., None].expand(-1, -1, hidden.shape[-1]))
        return self.decoder(self.head_norm(F.gelu(self.head(hidden), approximate="tanh")))


class Classifier(BertEncoder):
    """BERT that classifies an example by its first token; the gradient of the token table is sparse."""

    def __init__(self, size: BertSize) -> None:
        super().__init__(size, is_sparse=True)
        self.pooled, self.logits = nn.Linear(size.width, size.width), nn.Linear(size.width, CLASSES)
        _initialize(self)

    def forward(self, tokens: torch.Tensor, segments: torch.Tensor) -> torch.Tensor:
        """Logits (examples, classes)."""
        pooled = torch.tanh(self.pooled(self.encode(tokens, segments)[:, 0]))
        return self.logits(self.dropout(pooled))


def module_of(name: str) -> nn.Module:
    """The module called `name`, one of `BERT`."""
    size = BERT[name]
    return MaskedLanguageModel(size) if size.predictions else Classifier(size)


def batch_of(name: str) -> tuple[Any, Any]:
    """(inputs, targets) of the model called `name`."""
    size = BERT[name]
    return tensors_of(pretraining_batch(SEED, size) if size.predictions else classifier_batch(SEED, size))


def _initialize(module: BertEncoder) -> None:
    for name, parameter in module.named_parameters():
        if parameter.ndim > 1:
            nn.init.trunc_normal_(parameter, std=0.02, a=-0.04, b=0.04)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)


def _build(name: str) -> Parts:
    """The classifiers train by Adagrad, because PyTorch's Adam takes no sparse gradients."""
    size, module, batch = BERT[name], module_of(name), batch_of(name)
    if not size.predictions:
        return module, F.cross_entropy, batch, torch.optim.Adagrad(module.parameters(), size.learning_rate)
    return module, word_loss, batch, torch.optim.Adam(module.parameters(), size.learning_rate, eps=1e-6, fused=True)


bert_base = partial(_build, "bert-base")
bert_large = partial(_build, "bert-large")
bert_mini = partial(_build, "bert-mini")
bert_classifier = partial(_build, "bert-classifier")
bert_classifier_mini = partial(_build, "bert-classifier-mini")
