"""Models of torchvision and transformers without weights, as model functions: small, in float64, without dropout."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

EXAMPLES, CLASSES, WORDS, LENGTH, WIDTH = 4, 10, 50, 8, 16

_KEPT: list[torch.library.Library] = []
"""Operators stay declared as long as their library lives."""


def vision() -> Any:
    """The package torchvision.models.

    A torchvision for GPUs does not load its C++ operators on a PyTorch for CPUs, and its import fails because their
    names are unknown. Classifiers use none of the operators, so a declaration is enough.
    """
    try:
        return import_module("torchvision.models")
    except RuntimeError:
        _KEPT.append(torch.library.Library("torchvision", "FRAGMENT"))
        for name in ("nms", "qnms"):
            _KEPT[0].define(f"{name}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
        return import_module("torchvision.models")


def language() -> Any:
    """The package transformers, which imports torchvision if it is installed."""
    vision()
    return import_module("transformers")


def _vgg11() -> nn.Module:
    """The convolutions of VGG-11; its dense layers are too large for a test."""
    layers = vision().vgg.make_layers(vision().vgg.cfgs["A"])
    return nn.Sequential(layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES))


def _vit() -> nn.Module:
    return vision().VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=WIDTH, mlp_dim=32, num_classes=CLASSES
    )


def _swin() -> nn.Module:
    sizes = {"patch_size": [2, 2], "embed_dim": WIDTH, "depths": [2, 2], "num_heads": [2, 2], "window_size": [4, 4]}
    return vision().SwinTransformer(**sizes, num_classes=CLASSES)


def _convnext() -> nn.Module:
    settings = vision().convnext.CNBlockConfig
    return vision().ConvNeXt([settings(WIDTH, 32, 2), settings(32, None, 2)], num_classes=CLASSES)


def _named(name: str, **options: Any) -> Callable[[], nn.Module]:
    return lambda: getattr(vision(), name)(num_classes=CLASSES, **options)


VISION: dict[str, Callable[[], nn.Module]] = {
    "resnet18": _named("resnet18"),
    "vgg11": _vgg11,
    "densenet121": _named("densenet121"),
    "mobilenet_v3_small": _named("mobilenet_v3_small"),
    "efficientnet_b0": _named("efficientnet_b0"),
    "shufflenet_v2": _named("shufflenet_v2_x0_5"),
    "squeezenet": _named("squeezenet1_1"),
    "mnasnet": _named("mnasnet0_5"),
    "regnet": _named("regnet_y_400mf"),
    "vit": _vit,
    "swin": _swin,
    "convnext": _convnext,
}


def _bert(kind: str, **options: Any) -> nn.Module:
    """BERT, or a model with the same names of sizes."""
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = getattr(language(), f"{kind}Config")(
        vocab_size=WORDS, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **sizes, **options
    )
    return getattr(language(), f"{kind}ForMaskedLM")(config)


def _gpt2() -> nn.Module:
    config = language().GPT2Config(
        vocab_size=WORDS,
        n_positions=LENGTH,
        n_embd=WIDTH,
        n_layer=2,
        n_head=2,
        resid_pdrop=0,
        embd_pdrop=0,
        attn_pdrop=0,
    )
    return language().GPT2LMHeadModel(config)


def _t5() -> nn.Module:
    sizes = {"d_model": WIDTH, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
    return language().T5ForConditionalGeneration(language().T5Config(vocab_size=WORDS, dropout_rate=0.0, **sizes))


def _distilbert() -> nn.Module:
    sizes = {"dim": WIDTH, "hidden_dim": 32, "n_layers": 2, "n_heads": 2}
    config = language().DistilBertConfig(vocab_size=WORDS, dropout=0.0, attention_dropout=0.0, **sizes)
    return language().DistilBertForMaskedLM(config)


def _llama(kind: str) -> nn.Module:
    sizes = {"hidden_size": WIDTH, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = getattr(language(), f"{kind}Config")(vocab_size=WORDS, num_key_value_heads=1, **sizes)
    return getattr(language(), f"{kind}ForCausalLM")(config)


LANGUAGE: dict[str, Callable[[], nn.Module]] = {
    "bert": partial(_bert, "Bert"),
    "roberta": partial(_bert, "Roberta"),
    "albert": partial(_bert, "Albert", embedding_size=8),
    "distilbert": _distilbert,
    "gpt2": _gpt2,
    "t5": _t5,
    "llama": partial(_llama, "Llama"),
    "qwen2": partial(_llama, "Qwen2"),
}


def _prepare(module: nn.Module) -> tuple[nn.Module, torch.optim.Optimizer]:
    for part in module.modules():
        if type(part).__name__ in ("Dropout", "StochasticDepth"):
            part.p = 0.0
    module = module.double().train()
    return module, torch.optim.SGD(module.parameters(), lr=0.1)


def _of_images(build: Callable[[], nn.Module]) -> Any:
    module, optimizer = _prepare(build())
    batch = torch.randn(EXAMPLES, 3, 32, 32, dtype=torch.float64), torch.randint(CLASSES, (EXAMPLES,))
    return module, F.cross_entropy, batch, optimizer


def _of_words(build: Callable[[], nn.Module]) -> Any:
    module, optimizer = _prepare(build())
    words, targets = torch.randint(2, WORDS, (2, EXAMPLES, LENGTH)).unbind()
    inputs = {"input_ids": words}
    if module.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = targets.roll(1, 1)
    return module, _word_loss, (inputs, targets), optimizer


def _word_loss(outputs: Any, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(outputs.logits.flatten(0, 1), targets.flatten())


FAMILIES = {
    **{name: partial(_of_images, build) for name, build in VISION.items()},
    **{name: partial(_of_words, build) for name, build in LANGUAGE.items()},
}


def __getattr__(name: str) -> Callable[[], Any]:
    """The model function of a family, as if it was written here."""
    if name not in FAMILIES:
        raise AttributeError(name)
    return FAMILIES[name]
