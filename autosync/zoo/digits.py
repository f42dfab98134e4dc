"""Handwritten digits: the test set of the UCI repository's optical recognition of handwritten digits (Alpaydin and
Kaynak 1998), as scikit-learn ships it, sorted by label.
"""

from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np

from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.zoo.drawing import arrays_of
from autosync.zoo.losses import cross_entropy

DATA = Path(__file__).with_name("digits.npz")
BATCH_SIZE = 16
PARTS = 4
"""Number of parts into which the digits are divided by label; replica r draws from part r modulo `PARTS`."""

_BY_LABEL = "digits-by-label"


def build(name: str, batch_size: int = BATCH_SIZE, injected: float = 0.0) -> TrainingTask:
    """Dense layers 64-48-10, trained by gradient descent with momentum, on digits drawn with replacement.

    If the digits are divided by label, each digit of a batch is drawn from all digits with probability `injected`.
    """
    with np.load(DATA, allow_pickle=False) as data:
        images, labels = data["images"].astype("float32") / 16, data["labels"].astype("int32")
    pixels = keras.Input((images.shape[1],), name="pixels")
    x = keras.layers.Dense(48, "tanh", name="hidden")(pixels)
    return TrainingTask(
        name=name,
        model=keras.Model(pixels, keras.layers.Dense(10, name="logits")(x), name=name),
        loss=cross_entropy,
        optimizer=keras.optimizers.SGD(0.05, momentum=0.9, name="sgd"),
        batch_size=batch_size,
        batch=partial(
            _batch,
            images=images,
            labels=labels,
            parts=PARTS if name == _BY_LABEL else 1,
            batch_size=batch_size,
            injected=injected,
        ),
        any_batch_size=True,
    )


def _batch(seed: Any, images: Any, labels: Any, parts: int, batch_size: int, injected: float) -> tuple[Any, Any]:
    on = arrays_of(seed)
    size = len(labels) // parts
    places = on.below(seed, (batch_size,), size)
    if parts > 1:
        places = places + on.replica(seed) % parts * size
    if injected:
        of_chance, of_any = on.split(seed, 2)
        any_place = on.below(of_any, (batch_size,), len(labels))
        places = on.where(on.uniform(of_chance, (batch_size,)) < injected, any_place, places)
    return on.rows(images, places), on.rows(labels, places)
