"""Characters of a text that every machine has: the sources of Python's own library."""

import sysconfig
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np

from autosync.engine.capture.task import TrainingTask
from autosync.engine.zoo.drawing import arrays_of
from autosync.engine.zoo.language import LanguageModelSize, decoder
from autosync.engine.zoo.losses import cross_entropy

MOST_CHARACTERS = 1 << 20
SIZE = LanguageModelSize(128, 2, 128, 4, 32, 4, 1e-3, dropout=0.0)


def build(name: str) -> TrainingTask:
    """The decoder of transformer-lm-mini on ASCII; of each window of 32 characters the next ones are predicted.

    Another version of Python has another text.
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
    """The first 2^20 characters of the library's modules in the order of their names, uint8; what is not ASCII is 0."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    read = bytearray()
    for file in files:
        if len(read) < MOST_CHARACTERS:
            read += file.read_bytes()
    text = np.frombuffer(bytes(read[:MOST_CHARACTERS]), np.uint8)
    return np.where(text < SIZE.vocabulary, text, 0).astype(np.uint8)


def _batch(seed: Any, text: Any) -> tuple[Any, Any]:
    on = arrays_of(seed)
    starts = on.below(seed, (SIZE.batch_size, 1), len(text) - SIZE.sequence)
    window = on.int32(on.rows(text, starts + np.arange(SIZE.sequence + 1, dtype=np.int32)))
    return window[:, :-1], window[:, 1:]
