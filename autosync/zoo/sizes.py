"""The sizes of the zoo's models, equal in all frameworks. This module loads no framework."""

from __future__ import annotations

from dataclasses import dataclass

CLASSES = 2
"""Classes of a BERT classifier."""

SEGMENTS = 2

MOMENTUM = 0.9
"""The momentum with which image classifiers train."""


@dataclass(frozen=True)
class BertSize:
    """The size of a BERT model."""

    vocabulary: int
    """Number of words."""
    layers: int
    width: int
    heads: int
    """Attention heads per layer."""
    sequence: int
    """Tokens per example."""
    predictions: int
    """Masked tokens per example; 0 for a classifier."""
    batch_size: int
    learning_rate: float
    dropout: float = 0.1


BERT = {
    "bert-base": BertSize(30522, 12, 768, 12, 128, 20, 32, 1e-4),
    "bert-large": BertSize(30522, 24, 1024, 16, 128, 20, 32, 5e-5),
    "bert-mini": BertSize(3500, 2, 128, 4, 32, 5, 8, 1e-4, dropout=0.0),
    "bert-classifier": BertSize(30522, 12, 768, 12, 128, 0, 32, 2e-5),
    "bert-classifier-mini": BertSize(20000, 2, 176, 4, 32, 0, 4, 1e-4, dropout=0.0),
}


@dataclass(frozen=True)
class LanguageModelSize:
    """The size of a decoder."""

    vocabulary: int
    """Number of words."""
    layers: int
    width: int
    heads: int
    """Attention heads per layer."""
    sequence: int
    """Tokens that are predicted per example."""
    batch_size: int
    learning_rate: float
    dropout: float = 0.1


LANGUAGE_MODELS = {
    "transformer-lm": LanguageModelSize(33708, 6, 1024, 16, 256, 16, 1e-4),
    "transformer-lm-mini": LanguageModelSize(3500, 2, 128, 4, 32, 4, 3e-4, dropout=0.0),
}


@dataclass(frozen=True)
class ImageSize:
    """The size of an image classifier, and of its square colour images."""

    pixels: int
    """Pixels per side."""
    classes: int
    batch_size: int
    learning_rate: float


IMAGES = {
    "vgg16": ImageSize(224, 1000, 32, 1e-3),
    "resnet50": ImageSize(224, 1000, 32, 0.0125),
    "resnet101": ImageSize(224, 1000, 32, 0.0125),
    "densenet121": ImageSize(224, 1000, 32, 0.0125),
    "inceptionv3": ImageSize(299, 1000, 32, 0.0125),
    "vgg-mini": ImageSize(32, 10, 16, 0.01),
    "resnet-mini": ImageSize(32, 10, 8, 0.003),
}


@dataclass(frozen=True)
class NeuMFSize:
    """The size of a NeuMF model."""

    users: int
    items: int
    factors: int
    """Width of the matrix factorization."""
    layers: tuple[int, ...]
    """Widths of the perceptron; half of the first is the width of its user table and of its item table."""
    batch_size: int
    learning_rate: float


RECOMMENDERS = {
    "ncf": NeuMFSize(138493, 26744, 64, (256, 256, 128, 64), 65536, 5e-4),
    "ncf-mini": NeuMFSize(40000, 8000, 32, (128, 128, 64, 32), 4096, 5e-4),
}


@dataclass(frozen=True)
class PerceptronSize:
    """The size of a perceptron with two hidden layers, the second of a prime width."""

    inputs: int = 64
    hidden: tuple[int, int] = (96, 61)
    classes: int = 10
    batch_size: int = 8
    learning_rate: float = 0.05


PERCEPTRON = PerceptronSize()
