"""A language model on characters of a text that every machine has: the sources of Python's standard library."""

import sysconfig
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np

from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.zoo.drawing import arrays_of
from autosync.zoo.language import decoder
from autosync.zoo.losses import cross_entropy
from autosync.zoo.sizes import LanguageModelSize

MOST_CHARACTERS = 1 << 20
SIZE = LanguageModelSize(128, 2, 128, 4, 32, 4, 1e-3, dropout=0.0)


def build(name: str) -> TrainingTask:
    """The decoder of transformer-lm-mini on ASCII, which predicts the next character at 32 positions of each window.

    The text differs between versions of Python.
    """
    return TrainingTask(
        name=name,
        model=decoder(name, SIZE),
        loss=cross_entropy,
        optimizer=keras.optimizers.Adam(SIZE.learning_rate, beta_1=0.9, beta_2=0.98, epsilon=1e-9, name="adam"),
        batch_size=SIZE.batch_size,
        batch=partial(_batch, text=library_text()),
    )


def library_text() -> Any:
    """The first 2^20 characters of the library's modules in the order of their names, uint8; 0 replaces non-ASCII."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    content = bytearray()
    for file in files:
        if len(content) < MOST_CHARACTERS:
            content += file.read_bytes()
    text = np.frombuffer(bytes(content[:MOST_CHARACTERS]), np.uint8)
    return np.where(text < SIZE.vocabulary, text, 0).astype(np.uint8)


def _batch(seed: Any, text: Any) -> tuple[Any, Any]:
    on = arrays_of(seed)
    starts = on.below(seed, (SIZE.batch_size, 1), len(text) - SIZE.sequence)
    window = on.int32(on.rows(text, starts + np.arange(SIZE.sequence + 1, dtype=np.int32)))
    return window[:, :-1], window[:, 1:]
