"""Image classifiers: those of keras.applications on ImageNet's sizes, and two small ones on 32x32 images.

They train by stochastic gradient descent with momentum 0.9, as MLPerf and the papers use it, at learning rates for one
replica's batch and without weight decay. Sources: Simonyan and Zisserman 2015 (VGG), He et al. 2016 (ResNet), Huang et
al. 2017 (DenseNet), Szegedy et al. 2016 (Inception v3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras

from autosync.engine.capture.task import TrainingTask
from autosync.engine.zoo.losses import cross_entropy
from autosync.engine.zoo.synthetic import bright_images

MOMENTUM = 0.9


@dataclass(frozen=True)
class ImageSize:
    """Square colour images of `pixels` a side in `classes` classes."""

    model: Callable[[str, ImageSize], Any]
    pixels: int
    classes: int
    batch_size: int
    learning_rate: float


def build(name: str) -> TrainingTask:
    """The task called `name`, one of `SIZES`.

    vgg16 138 M parameters (103 M in one dense layer), resnet50 26 M, resnet101 45 M, densenet121 8.0 M,
    inceptionv3 24 M, vgg-mini 0.85 M (0.69 M in one dense layer), resnet-mini 0.84 M.
    """
    size = SIZES[name]
    shape = (size.batch_size, size.pixels, size.pixels, 3)
    return TrainingTask(
        name=name,
        model=size.model(name, size),
        loss=cross_entropy,
        optimizer=keras.optimizers.SGD(size.learning_rate, momentum=MOMENTUM, nesterov=False, name="sgd"),
        batch_size=size.batch_size,
        batch=partial(bright_images, shape=shape, classes=size.classes),
    )


def _application(architecture: str) -> Callable[[str, ImageSize], Any]:
    def model(name: str, size: ImageSize) -> Any:
        return getattr(keras.applications, architecture)(
            weights=None,
            input_tensor=_images(size),
            classes=size.classes,
            classifier_activation=None,
            name=name,
        )

    return model


def _images(size: ImageSize) -> Any:
    return keras.Input(batch_shape=(size.batch_size, size.pixels, size.pixels, 3), name="images")


def _vgg_mini(name: str, size: ImageSize) -> Any:
    """Three blocks of two convolutions, then three dense layers, the first of which holds 81 % of the parameters."""
    images = x = _images(size)
    for block, filters in enumerate((16, 32, 64), 1):
        for index in (1, 2):
            x = keras.layers.Conv2D(filters, 3, padding="same", activation="relu", name=f"block{block}_conv{index}")(x)
        x = keras.layers.MaxPooling2D(name=f"block{block}_pool")(x)
    x = keras.layers.Flatten(name="flatten")(x)
    x = keras.layers.Dense(672, "relu", name="fc1")(x)
    x = keras.layers.Dense(128, "relu", name="fc2")(x)
    return keras.Model(images, keras.layers.Dense(size.classes, name="predictions")(x), name=name)


def _resnet_mini(name: str, size: ImageSize) -> Any:
    """A stem and three residual blocks of two convolutions, each block half the size and twice the width."""
    images = _images(size)
    x = _normalized_convolution(images, 16, 3, 1, "stem")
    for block, filters in enumerate((56, 112, 208), 1):
        shortcut = _normalized_convolution(x, filters, 1, 2, f"block{block}_shortcut", activation=None)
        x = _normalized_convolution(x, filters, 3, 2, f"block{block}_1")
        x = _normalized_convolution(x, filters, 3, 1, f"block{block}_2", activation=None)
        x = keras.layers.Add(name=f"block{block}_add")([x, shortcut])
        x = keras.layers.ReLU(name=f"block{block}_out")(x)
    x = keras.layers.GlobalAveragePooling2D(name="avg_pool")(x)
    return keras.Model(images, keras.layers.Dense(size.classes, name="predictions")(x), name=name)


def _normalized_convolution(
    x: Any, filters: int, window: int, stride: int, name: str, activation: str | None = "relu"
) -> Any:
    x = keras.layers.Conv2D(filters, window, stride, padding="same", use_bias=False, name=f"{name}_conv")(x)
    x = keras.layers.BatchNormalization(name=f"{name}_bn")(x)
    return keras.layers.Activation(activation, name=f"{name}_{activation}")(x) if activation else x


SIZES = {
    "vgg16": ImageSize(_application("VGG16"), 224, 1000, 32, 1e-3),
    "resnet50": ImageSize(_application("ResNet50"), 224, 1000, 32, 0.0125),
    "resnet101": ImageSize(_application("ResNet101"), 224, 1000, 32, 0.0125),
    "densenet121": ImageSize(_application("DenseNet121"), 224, 1000, 32, 0.0125),
    "inceptionv3": ImageSize(_application("InceptionV3"), 299, 1000, 32, 0.0125),
    "vgg-mini": ImageSize(_vgg_mini, 32, 10, 16, 0.01),
    "resnet-mini": ImageSize(_resnet_mini, 32, 10, 8, 0.003),
}
