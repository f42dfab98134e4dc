"""A layer of a Transformer (Vaswani et al., "Attention Is All You Need", 2017)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from autosync.zoo.torch.parts import dropout


class TransformerLayer(nn.Module):
    """Attention and a perceptron, each with a residual sum.

    An encoder's layer normalizes after each sum, as BERT does. A decoder's layer is causal and normalizes before each
    half.
    """

    def __init__(self, width: int, heads: int, share: float, epsilon: float, is_decoder: bool) -> None:
        """`share` of the activations is dropped; `epsilon` is that of the normalization."""
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.attention_norm, self.norm = nn.LayerNorm(width, epsilon), nn.LayerNorm(width, epsilon)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = dropout(share)
        self.heads, self.share, self.is_decoder = heads, share, is_decoder

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        if self.is_decoder:
            hidden = hidden + self._attend(self.attention_norm(hidden))
            return hidden + self._transform(self.norm(hidden))
        hidden = self.attention_norm(hidden + self._attend(hidden))
        return self.norm(hidden + self._transform(hidden))

    def _attend(self, hidden: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            layer(hidden).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        share = self.share if self.training else 0.0
        attended = F.scaled_dot_product_attention(query, key, value, dropout_p=share, is_causal=self.is_decoder)
        return self.dropout(self.output(attended.transpose(1, 2).flatten(2)))

    def _transform(self, hidden: torch.Tensor) -> torch.Tensor:
        wide = self.widen(hidden)
        wide = F.relu(wide) if self.is_decoder else F.gelu(wide, approximate="tanh")
        return self.dropout(self.narrow(wide))
