"""Published model families: the smallest model of each family is captured and takes a step.

A single replica takes the step, because tracing these models takes long, and several replicas work alike for all
models.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from autosync.engine.tensorflow.capture.capturing import capture
from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.step.session import TensorFlowSession
from autosync.zoo.own_task import OwnParts, user_task
from autosync.zoo.user_model import repeatable_build
from tests.cases import local_cluster
from tests.contracts.ways import ALONE

ONE_WORKER = local_cluster(1)
SMALLEST = {
    "convnext": ("ConvNeXtTiny", 32),
    "densenet": ("DenseNet121", 32),
    "efficientnet": ("EfficientNetB0", 32),
    "efficientnet_v2": ("EfficientNetV2B0", 32),
    "inception_resnet_v2": ("InceptionResNetV2", 75),
    "inception_v3": ("InceptionV3", 75),
    "mobilenet": ("MobileNet", 32),
    "mobilenet_v2": ("MobileNetV2", 32),
    "mobilenet_v3": ("MobileNetV3Small", 32),
    "nasnet": ("NASNetMobile", 32),
    "resnet": ("ResNet50", 32),
    "resnet_v2": ("ResNet50V2", 32),
    "vgg16": ("VGG16", 32),
    "vgg19": ("VGG19", 32),
    "xception": ("Xception", 71),
}
"""The smallest member of each module of `keras.applications`, and about its smallest image size in pixels."""
CLASSES = 3


def _of_keras(family: str) -> tuple[Any, Any]:
    member, pixels = SMALLEST[family]
    shape = (pixels, pixels, 3)
    body = getattr(keras.applications, member)(weights=None, include_top=False, pooling="avg", input_shape=shape)
    model = keras.Sequential([body, keras.layers.Dense(CLASSES)])
    return model, np.random.default_rng(0).uniform(0, 255, (2, *shape)).astype(np.float32)


def _vision_transformer() -> tuple[Any, Any]:
    from keras_hub.models import ViTBackbone

    body = ViTBackbone(
        image_shape=(32, 32, 3), patch_size=8, num_layers=1, num_heads=2, hidden_dim=16, mlp_dim=32, dropout_rate=0.1
    )
    model = keras.Sequential([body, keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(CLASSES)])
    return model, np.random.default_rng(0).normal(size=(2, 32, 32, 3)).astype(np.float32)


def _gpt2() -> tuple[Any, Any]:
    from keras_hub.models import GPT2Backbone

    body = GPT2Backbone(
        vocabulary_size=50, num_layers=1, num_heads=2, hidden_dim=16, intermediate_dim=32, max_sequence_length=12
    )
    pooled = keras.layers.GlobalAveragePooling1D()(body.output)
    model = keras.Model(body.input, keras.layers.Dense(CLASSES)(pooled))
    tokens = np.random.default_rng(0).integers(0, 50, (2, 12), dtype=np.int32)
    return model, {"token_ids": tokens, "padding_mask": np.ones_like(tokens)}


def _takes_a_step(name: str, model: Any, inputs: Any) -> None:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    task = user_task(name, OwnParts(model, loss, (inputs, np.array([0, 2])), keras.optimizers.SGD(1e-3)))
    session = TensorFlowSession(capture(task), ONE_WORKER, Placement.in_one_process(ONE_WORKER))
    assert {variable.name for variable in session.model.variables} <= {
        variable.path for variable in model.trainable_variables
    }
    step = session.realize(ALONE["servers in turn"](session.model, ONE_WORKER))
    before = step.values()
    assert np.isfinite(step())
    assert any((before[name] != value).any() for name, value in step.values().items())


def test_every_family_of_keras_is_among_them():
    modules = {name for name in dir(keras.applications) if not name.startswith("_") and name.islower()}
    assert modules - {"imagenet_utils", "resnet50"} == set(SMALLEST)  # the latter is only another name of `resnet`


@pytest.mark.thorough
@pytest.mark.parametrize("family", SMALLEST)
def test_every_family_of_keras_is_captured_and_takes_a_step(family):
    with repeatable_build():
        _takes_a_step(family, *_of_keras(family))


@pytest.mark.thorough
@pytest.mark.parametrize("make", [_vision_transformer, _gpt2])
def test_backbones_of_keras_hub_are_captured_and_take_a_step(make):
    with repeatable_build():
        _takes_a_step("backbone", *make())
