"""The names of the zoo's models, and the search space for each. This module loads no framework."""

from __future__ import annotations

from importlib.util import find_spec

from autosync.engine.core.user_function import parts_of_own
from autosync.errors import ModelError, did_you_mean

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
"""Short name -> the full name of the model on CPUs, and on GPUs."""

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


ONLY_IN_KERAS = {"characters", "digits", "digits-by-label", "quadratic", "teacher"}
"""Models of known loss or real data, for training to a target."""


def resolve_name(name: str, gpus: int) -> str:
    """The full name of a model, such as 'bert-mini' for 'bert' if there are no GPUs; other names stay unchanged."""
    on_cpus, on_gpus = ALIASES.get(name, (name, name))
    return on_gpus if gpus else on_cpus


IN_TORCH = [name for name in MODELS if name not in ONLY_IN_KERAS]
"""The models that exist in PyTorch, too."""


def torch_builder(name: str, gpus: int = 0) -> str:
    """The function that builds the model `name` in PyTorch. Raises `ModelError` for a model without one."""
    if ":" in name:
        parts_of_own(name)
        return name
    full_name = resolve_name(name, gpus)
    if full_name not in IN_TORCH:
        raise ModelError(
            f"No model is called {name!r} in PyTorch.{did_you_mean(name, IN_TORCH)} Known: "
            f"{', '.join(sorted(IN_TORCH))}; or name your own as package.module:function."
        )
    return f"autosync.zoo.torch.{family(full_name)[0]}:{full_name.replace('-', '_')}"


def default_space(name: str) -> str:
    """The search space of the model: 'bert', 'cnn', 'ncf' or 'default'; always 'default' for a user's own model."""
    return family(name)[1] if ":" not in name else "default"


def framework_by_name(name: str, framework: str | None) -> str | None:
    """The framework of the model `name`, if `framework` or the name states it; loads nothing.

    A name of the zoo means TensorFlow if TensorFlow is installed, or else PyTorch. For a user's own function, the value
    that the function returns decides, and this function returns None.
    """
    if framework is not None or ":" in name:
        return framework
    return "pytorch" if find_spec("tensorflow") is None else "tensorflow"


def check_model_name(name: str, framework: str | None = "tensorflow") -> None:
    """Raise `ModelError`, listing all names, if `name` is neither known nor has the form of a user's function.

    Only some models of the zoo exist in the framework *pytorch*. Loads nothing: a user's module is imported, and its
    function called, only when its model is built.
    """
    if ":" in name:
        parts_of_own(name)
    elif name not in MODELS and name not in ALIASES:
        raise ModelError(no_such_model(name))
    elif framework_by_name(name, framework) == "pytorch":
        torch_builder(name)


def family(name: str) -> tuple[str, str]:
    """The module that builds the model, and the model's search space. Raises `ModelError` if `name` is unknown."""
    for start, module, space in _FAMILIES:
        if name.startswith(start):
            return module, space
    raise ModelError(no_such_model(name))


def no_such_model(name: str) -> str:
    """The sentence that refuses an unknown name and lists all names."""
    known = sorted([*MODELS, *ALIASES])
    return (
        f"No model is called {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}; or name your own as "
        "package.module:function."
    )
