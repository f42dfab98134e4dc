"""Image classifiers: models of keras.applications on ImageNet's sizes, and two small models on 32x32 images.

They train by stochastic gradient descent with momentum 0.9, as in MLPerf and the papers, at learning rates for one
replica's batch and without weight decay. Sources: Simonyan and Zisserman 2015 (VGG), He et al. 2016 (ResNet), Huang et
al. 2017 (DenseNet), Szegedy et al. 2016 (Inception v3).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import keras

from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.zoo.losses import cross_entropy
from autosync.zoo.sizes import IMAGES, MOMENTUM, ImageSize
from autosync.zoo.synthetic import bright_images


def build(name: str) -> TrainingTask:
    """The task called `name`, one of `IMAGES`.

    vgg16 138 M parameters (103 M in one dense layer), resnet50 26 M, resnet101 45 M, densenet121 8.0 M,
    inceptionv3 24 M, vgg-mini 0.85 M (0.69 M in one dense layer), resnet-mini 0.84 M.
    """
    size = IMAGES[name]
    shape = (size.batch_size, size.pixels, size.pixels, 3)
    return TrainingTask(
        name=name,
        model=_MODELS[name](name, size),
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
    """Three blocks of two convolutions, then three dense layers; the first dense layer has 81 % of the parameters."""
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
    """A stem and three residual blocks of two convolutions; each block halves the size and doubles the width."""
    images = _images(size)
    x = _convolution_with_norm(images, 16, 3, 1, "stem")
    for block, filters in enumerate((56, 112, 208), 1):
        shortcut = _convolution_with_norm(x, filters, 1, 2, f"block{block}_shortcut", activation=None)
        x = _convolution_with_norm(x, filters, 3, 2, f"block{block}_1")
        x = _convolution_with_norm(x, filters, 3, 1, f"block{block}_2", activation=None)
        x = keras.layers.Add(name=f"block{block}_add")([x, shortcut])
        x = keras.layers.ReLU(name=f"block{block}_out")(x)
    x = keras.layers.GlobalAveragePooling2D(name="avg_pool")(x)
    return keras.Model(images, keras.layers.Dense(size.classes, name="predictions")(x), name=name)


def _convolution_with_norm(
    x: Any, filters: int, window: int, stride: int, name: str, activation: str | None = "relu"
) -> Any:
    x = keras.layers.Conv2D(filters, window, stride, padding="same", use_bias=False, name=f"{name}_conv")(x)
    x = keras.layers.BatchNormalization(name=f"{name}_bn")(x)
    return keras.layers.Activation(activation, name=f"{name}_{activation}")(x) if activation else x


_MODELS: dict[str, Callable[[str, ImageSize], Any]] = {
    "vgg16": _application("VGG16"),
    "resnet50": _application("ResNet50"),
    "resnet101": _application("ResNet101"),
    "densenet121": _application("DenseNet121"),
    "inceptionv3": _application("InceptionV3"),
    "vgg-mini": _vgg_mini,
    "resnet-mini": _resnet_mini,
}
