"""Reads data like `keras.Model.fit`, with Keras's own adapters: arrays, `PyDataset`s, weights of classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from autosync.errors import TrainingError
from autosync.spec import said


@dataclass(frozen=True)
class DataArguments:
    """The arguments of `keras.Model.fit` that concern data. See Keras for their meanings."""

    y: Any = None
    sample_weight: Any = None
    class_weight: Mapping[int, float] | None = None
    batch_size: int | None = None
    shuffle: bool = True
    steps_per_epoch: int | None = None
    validation_split: float = 0.0


def split(x: Any, arguments: DataArguments) -> tuple[Any, DataArguments, Any]:
    """Split off the last part of the arrays as validation data, like Keras; return both parts."""
    from keras.src.trainers.data_adapters.array_slicing import train_validation_split

    whole = (x, arguments.y, arguments.sample_weight)
    try:
        (x, y, weight), rest = train_validation_split(whole, validation_split=arguments.validation_split)
    except (TypeError, ValueError) as error:
        raise TrainingError(f"validation_split cannot be honoured: {_sentence(error)}") from error
    return x, replace(arguments, y=y, sample_weight=weight), rest


def from_keras(x: Any, arguments: DataArguments) -> FromKeras:
    """Return the batches of arrays or of a `PyDataset`. Raises `TrainingError` if Keras refuses the data."""
    from keras.src.trainers.data_adapters import get_data_adapter

    try:
        adapter = get_data_adapter(
            x,
            arguments.y,
            sample_weight=arguments.sample_weight,
            batch_size=arguments.batch_size,
            steps_per_epoch=arguments.steps_per_epoch,
            shuffle=arguments.shuffle,
            class_weight=arguments.class_weight,
        )
    except (TypeError, ValueError) as error:
        raise TrainingError(f"The data cannot be trained on: {_sentence(error)}") from error
    adapter.on_epoch_end()  # `keras.Model.fit` calls it before the first epoch too
    return FromKeras(adapter)


def is_py_dataset(x: Any) -> bool:
    """Whether `x` is a `keras.utils.PyDataset`."""
    import keras

    return isinstance(x, keras.utils.PyDataset)


@dataclass
class FromKeras:
    """The batches of a Keras data adapter, in the order in which `keras.Model.fit` takes them."""

    adapter: Any
    _arrays: Any = None

    def __iter__(self) -> Iterator[Any]:
        self.adapter.on_epoch_begin()
        batches = iter(self._whole())
        count = self.adapter.num_batches
        taken = 0
        while count is None or taken < count:
            batch = next(batches, None)
            if batch is None:
                break
            yield batch
            taken += 1
        self.adapter.on_epoch_end()

    def _whole(self) -> Any:
        """Return the adapter's batches of an epoch. Arrays are one data set, which is shuffled in each epoch."""
        if type(self.adapter).__name__ != "ArrayDataAdapter":
            return self.adapter.get_numpy_iterator()
        if self._arrays is None:
            self._arrays = self.adapter.get_tf_dataset()
        return self._arrays


@dataclass(frozen=True)
class ClassWeighted:
    """The batches (inputs, targets) of `data`, with a weight for each example by its class."""

    data: Iterable[Any]
    class_weight: Mapping[int, float]

    def __iter__(self) -> Iterator[Any]:
        import numpy as np
        from keras.src.trainers.data_adapters.data_adapter_utils import class_weight_to_sample_weights

        for batch in self.data:
            if not isinstance(batch, tuple | list) or len(batch) != 2:
                raise TrainingError(
                    "class_weight needs batches (inputs, targets) without weights of their own; leave one of both out."
                )
            inputs, targets = batch
            yield inputs, targets, class_weight_to_sample_weights(np.asarray(targets), self.class_weight)


def _sentence(error: BaseException) -> str:
    return said(error).rstrip(".") + "."
