"""The sufficient factors of the gradients of linear layers, noted while a backward pass computes them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

TOLERANCE = 1e-3
"""The share by which a product may differ from the gradient, of the sum of all magnitudes that are added up. Rounding
in float32 differs less, and a missing or foreign term differs more."""


@dataclass(frozen=True)
class FactoredGradient:
    """A matrix gradient (M, N) as A^T B: `left` is A (K, M), `right` is B (K, N)."""

    left: torch.Tensor
    right: torch.Tensor

    def checked(self, name: str, gradient: torch.Tensor) -> FactoredGradient:
        """The same pair. Raises `RuntimeError` if it is not the `gradient` of parameter `name`."""
        if self.stands_for(gradient):
            return self
        raise RuntimeError(
            f"The gradient of parameter {name!r} is not the product of the inputs of its linear layer and the "
            "gradients of the outputs, so it cannot be sent as sufficient factors; set gradients to zero before each "
            "step, and use the parameter in this layer only, without autocast and torch.compile."
        )

    def stands_for(self, gradient: torch.Tensor) -> bool:
        """Whether A^T B is `gradient`, tested by the product of both with one random vector (Freivalds 1977).

        A gradient that is not finite passes.
        """
        vector = torch.randn(gradient.shape[1], dtype=gradient.dtype, generator=torch.Generator().manual_seed(0))
        difference = gradient @ vector - self.left.T @ (self.right @ vector)
        magnitudes = self.left.abs().T @ (self.right.abs() @ vector.abs())
        return not bool((difference.abs() > TOLERANCE * magnitudes).any())


def layers_with_factors(module: nn.Module) -> dict[nn.Parameter, list[nn.Linear]]:
    """By trainable weight, the linear layers that multiply with it, if no module of another kind has the weight."""
    layers: dict[nn.Parameter, list[nn.Linear]] = {}
    foreign = set[nn.Parameter]()
    for part in module.modules():
        # A derived class may multiply in another way, and a weight may be computed from parameters.
        if type(part) is nn.Linear and isinstance(part.weight, nn.Parameter):
            layers.setdefault(part.weight, []).append(part)
        else:
            foreign.update(part.parameters(recurse=False))
    return {weight: parts for weight, parts in layers.items() if weight.requires_grad and weight not in foreign}


@final
class FactorTaps:
    """Notes the factors of some weights by hooks on their layers, from all backward passes since they were taken.

    PyTorch calls no hook for an output of more than two axes that is changed in place, so its factors stay unknown.
    """

    def __init__(self, module: nn.Module, weights: Collection[nn.Parameter]) -> None:
        """`weights` are some of `layers_with_factors`."""
        self._pairs: dict[nn.Parameter, list[FactoredGradient]] = {weight: [] for weight in weights}
        self._handles: list[RemovableHandle] = []
        for weight, layers in layers_with_factors(module).items():
            if weight in self._pairs:
                self._handles += [layer.register_forward_hook(partial(self._note, weight)) for layer in layers]

    @property
    def weights(self) -> Collection[nn.Parameter]:
        return self._pairs.keys()

    def take(self, weight: nn.Parameter) -> FactoredGradient:
        """The factors of the gradient that the passes have added up; from then on, later passes count."""
        pairs, self._pairs[weight] = self._pairs[weight], []
        left = [pair.left for pair in pairs] or [weight.new_empty(0, weight.shape[0])]
        right = [pair.right for pair in pairs] or [weight.new_empty(0, weight.shape[1])]
        return FactoredGradient(torch.cat(left), torch.cat(right))

    def put(self, weight: nn.Parameter, pair: FactoredGradient) -> None:
        """Note the factors of a recorded pass, if factors of this weight are noted at all."""
        if weight in self._pairs:
            self._pairs[weight].append(pair)

    def remove(self) -> None:
        """Remove all hooks."""
        for handle in self._handles:
            handle.remove()

    def _note(self, weight: nn.Parameter, layer: nn.Module, inputs: tuple[torch.Tensor, ...], output: Any) -> None:
        """Note the input of a forward pass once the backward pass has computed the gradient of its `output`."""
        del layer
        if not inputs or not output.requires_grad:
            return
        right = inputs[0].detach()

        def note(gradient: torch.Tensor) -> None:
            if gradient.dtype == right.dtype == weight.dtype:  # autocast rounds the product
                pair = gradient.detach().reshape(-1, weight.shape[0]), right.reshape(-1, weight.shape[1])
                self._pairs[weight].append(FactoredGradient(*pair))

        output.register_hook(note)
