"""The model zoo: names of the training tasks there are, each built where it is asked for.

Nothing here imports TensorFlow or Keras before `build_task` is called. No weights are ever downloaded: models start
from seeded random weights and train on batches drawn inside the graph: synthetic ones, or of data that ship.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from autosync.errors import ModelError

if TYPE_CHECKING:
    from autosync.engine.capture.task import TrainingTask

__all__ = ["ALIASES", "MODELS", "build_task", "check_model_name", "default_space", "parts_of_own", "resolve_name"]

MODELS = {
    "bert-base": "BERT-base, masked-language pretraining with tied embeddings; 109 M parameters",
    "bert-classifier": "BERT-base, classification into two classes: sparse embedding gradient; 109 M parameters",
    "bert-classifier-mini": "BERT of 2 layers for CPUs, classification: sparse embedding gradient; 4.3 M parameters",
    "bert-large": "BERT-large, masked-language pretraining with tied embeddings; 335 M parameters",
    "bert-mini": "BERT of 2 layers for CPUs, masked-language pretraining with tied embeddings; 0.87 M parameters",
    "characters": "decoder-only language model for CPUs on characters of Python's own library; 0.43 M parameters",
    "densenet121": "DenseNet-121 on ImageNet's sizes; 8.0 M parameters",
    "digits": "1797 handwritten digits of 8 x 8 pixels, two dense layers; 3.6 thousand parameters",
    "digits-by-label": "the same, each of four replicas with digits of its own kinds",
    "inceptionv3": "Inception v3 on ImageNet's sizes; 24 M parameters",
    "mlp": "three dense layers for tests; 13 thousand parameters",
    "ncf": "neural collaborative filtering at MovieLens-20M's sizes: four sparse tables; 32 M parameters",
    "ncf-mini": "neural collaborative filtering for CPUs: four sparse tables; 4.6 M parameters",
    "quadratic": "a quadratic in 50 directions with noise, whose loss is known in closed form",
    "resnet101": "ResNet-101 on ImageNet's sizes; 45 M parameters",
    "resnet50": "ResNet-50 on ImageNet's sizes; 26 M parameters",
    "resnet-mini": "a residual network with batch normalization for CPUs; 0.84 M parameters",
    "teacher": "the classes of a fixed random teacher, a tenth of them drawn: the least loss is known; 2.0 thousand",
    "transformer-lm": "decoder-only language model of WMT sizes: sparse input table; 145 M parameters",
    "transformer-lm-mini": "decoder-only language model for CPUs: sparse input table; 1.3 M parameters",
    "vgg16": "VGG-16 on ImageNet's sizes: one dense layer of 103 M; 138 M parameters",
    "vgg-mini": "a VGG for CPUs: one dense layer of 0.69 M; 0.85 M parameters",
}

ALIASES = {
    "bert": ("bert-mini", "bert-large"),
    "resnet": ("resnet-mini", "resnet101"),
    "vgg": ("vgg-mini", "vgg16"),
}
"""Short name -> the model it means on CPUs, and on GPUs."""

_FAMILIES = (  # start of a name, module that builds it, search space
    ("bert", "bert", "bert"),
    ("transformer-lm", "language", "bert"),
    ("vgg", "images", "cnn"),
    ("resnet", "images", "cnn"),
    ("densenet", "images", "cnn"),
    ("inception", "images", "cnn"),
    ("ncf", "recommendation", "ncf"),
    ("mlp", "perceptron", "default"),
    ("digits", "digits", "default"),
    ("teacher", "teacher", "default"),
    ("quadratic", "quadratic", "default"),
    ("characters", "characters", "bert"),
)


def resolve_name(name: str, gpus: int) -> str:
    """The full name of a model, such as 'bert-mini' for 'bert' when there are no GPUs; other names stay as they are."""
    on_cpus, on_gpus = ALIASES.get(name, (name, name))
    return on_gpus if gpus else on_cpus


def default_space(name: str) -> str:
    """The search space file that suits the model: 'bert', 'cnn', 'ncf', or 'default' for a user's own."""
    return _family(name)[1] if ":" not in name else "default"


def check_model_name(name: str) -> None:
    """Raise `ModelError`, listing the names there are, for one that is neither known nor written as a user's function.

    Loads nothing: a user's module is only imported, and its function called, when its model is built.
    """
    if ":" in name:
        parts_of_own(name)
    elif name not in MODELS and name not in ALIASES:
        raise ModelError(_unknown(name))


def build_task(name: str, gpus: int = 0, backend: str = "tensorflow") -> TrainingTask:
    """Build the model called `name`, or the user's own when it has the form `package.module:function`.

    Imports Keras, which must run on `backend`. Building twice gives bit-identical weights under the same variable
    paths, which are the same on every back end. Raises `ModelError`.
    """
    if ":" in name:
        from autosync.engine.zoo.user_model import task_from_function

        return task_from_function(name, backend)
    full_name = resolve_name(name, gpus)
    module, _ = _family(full_name)
    if full_name not in MODELS:
        raise ModelError(_unknown(name))
    from autosync.engine.capture.settings import keras_defaults
    from autosync.engine.zoo.user_model import repeatable_build

    with repeatable_build(backend=backend), keras_defaults():
        task: TrainingTask = import_module(f"autosync.engine.zoo.{module}").build(full_name)
    return replace(task, keras_defaults=True)


def parts_of_own(name: str) -> tuple[str, str]:
    """Module and function of a user's own model, from its name alone. Raises `ModelError` when it lacks one."""
    module, _, function = name.partition(":")
    if not all(module.split(".")) or not function.isidentifier():
        raise ModelError(f"A model of your own is named as package.module:function, not {name!r}.")
    return module, function


def _family(name: str) -> tuple[str, str]:
    for start, module, space in _FAMILIES:
        if name.startswith(start):
            return module, space
    raise ModelError(_unknown(name))


def _unknown(name: str) -> str:
    known = ", ".join(sorted([*MODELS, *ALIASES]))
    return f"No model is called {name!r}. Known: {known}; or name your own as package.module:function."
