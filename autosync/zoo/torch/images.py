"""Image classifiers in PyTorch, as `autosync.zoo.images` describes them: VGG here, the others in files of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from autosync.zoo.sizes import IMAGES, MOMENTUM
from autosync.zoo.synthetic import bright_images
from autosync.zoo.torch.densenet import DenseNet
from autosync.zoo.torch.inception import InceptionV3
from autosync.zoo.torch.parts import SEED, Parts, tensors_of
from autosync.zoo.torch.resnet import ResNet, resnet_of_pairs


def vgg(pixels: int, classes: int, blocks: Sequence[tuple[int, int]], hidden: Sequence[int]) -> nn.Sequential:
    """Blocks of (filters, convolutions), each of which halves the image, then dense layers of the widths `hidden`
    (Simonyan and Zisserman 2015)."""
    layers: list[nn.Module] = []
    channels = 3
    for filters, convolutions in blocks:
        for _ in range(convolutions):
            layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU()]
            channels = filters
        layers.append(nn.MaxPool2d(2))
    layers.append(nn.Flatten())
    width = channels * (pixels >> len(blocks)) ** 2
    for outputs in hidden:
        layers += [nn.Linear(width, outputs), nn.ReLU()]
        width = outputs
    return nn.Sequential(*layers, nn.Linear(width, classes))


MODULES: dict[str, Callable[[int, int], nn.Module]] = {
    "vgg16": partial(vgg, blocks=((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), hidden=(4096, 4096)),
    "vgg-mini": partial(vgg, blocks=((16, 2), (32, 2), (64, 2)), hidden=(672, 128)),
    "resnet50": lambda _pixels, classes: ResNet(classes, (3, 4, 6, 3)),
    "resnet101": lambda _pixels, classes: ResNet(classes, (3, 4, 23, 3)),
    "resnet-mini": lambda _pixels, classes: resnet_of_pairs(classes, (16, 56, 112, 208)),
    "densenet121": lambda _pixels, classes: DenseNet(classes, (6, 12, 24, 16)),
    "inceptionv3": lambda _pixels, classes: InceptionV3(classes),
}
"""Functions of pixels per side and classes."""


def module_of(name: str) -> nn.Module:
    """The module called `name`, one of `IMAGES`: images (examples, 3, pixels, pixels) -> logits (examples, classes)."""
    return MODULES[name](IMAGES[name].pixels, IMAGES[name].classes)


def batch_of(name: str) -> tuple[Any, Any]:
    """(inputs, targets) of the model called `name`."""
    size = IMAGES[name]
    shape = size.batch_size, size.pixels, size.pixels, 3
    images, labels = tensors_of(bright_images(SEED, shape, size.classes))
    return images.permute(0, 3, 1, 2).contiguous(), labels


def _build(name: str) -> Parts:
    module = module_of(name)
    optimizer = torch.optim.SGD(module.parameters(), IMAGES[name].learning_rate, momentum=MOMENTUM, fused=True)
    return module, F.cross_entropy, batch_of(name), optimizer


vgg16 = partial(_build, "vgg16")
vgg_mini = partial(_build, "vgg-mini")
resnet50 = partial(_build, "resnet50")
resnet101 = partial(_build, "resnet101")
resnet_mini = partial(_build, "resnet-mini")
densenet121 = partial(_build, "densenet121")
inceptionv3 = partial(_build, "inceptionv3")
