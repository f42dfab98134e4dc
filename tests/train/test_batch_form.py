"""Valid forms of a batch, and the sentence that refuses an invalid one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosync.errors import TrainingError
from autosync.train.data import BatchForm

IDS = np.arange(8, dtype="int32").reshape(4, 2)
FEATURES = np.ones((4, 3))
LABELS = np.array([0, 1, 1, 0])

FORM = BatchForm.of(({"x": FEATURES, "ids": IDS}, LABELS))


def test_arrays_are_flat_in_tensorflows_order_and_float64_is_float32() -> None:
    assert FORM.names == ("inputs['ids']", "inputs['x']", "targets")
    assert FORM.shapes == ((2,), (3,), ())
    assert FORM.dtypes == ("int32", "float32", "int64")
    flat = FORM.flat(({"x": [[1, 2, 3]], "ids": IDS[:1].astype("int64")}, [1]))
    assert [(array.shape, str(array.dtype)) for array in flat] == [
        ((1, 2), "int32"),
        ((1, 3), "float32"),
        ((1,), "int64"),
    ]


@pytest.mark.parametrize(
    ("batch", "sentence"),
    [
        (FEATURES, "A batch must be a pair (inputs, targets), perhaps with weights as a third, not ndarray."),
        (
            (FEATURES, *(LABELS,) * 3),
            "A batch must be a pair (inputs, targets), perhaps with weights as a third, not a tuple of 4.",
        ),
        (
            ({"x": FEATURES}, LABELS),
            "Every batch must have the arrays of the first one, inputs['ids'], inputs['x'], targets, but one has "
            "inputs['x'], targets.",
        ),
        (
            ({"x": FEATURES[:3], "ids": IDS}, LABELS),
            "All arrays of a batch must have the same number of examples, at least 1, but: inputs['ids'] 4, "
            "inputs['x'] 3, targets 4.",
        ),
        (
            ({"x": FEATURES[:, :2], "ids": IDS}, LABELS),
            "inputs['x'] of every batch must be float32 of shape (examples, 3) as in the first one, not float64 of "
            "(4, 2).",
        ),
        (
            ({"x": FEATURES, "ids": IDS * 0.5}, LABELS),
            "inputs['ids'] of every batch must be int32 of shape (examples, 2) as in the first one, not float64 of "
            "(4, 2).",
        ),
        (
            ({"x": FEATURES, "ids": "words"}, LABELS),
            "inputs['ids'] of a batch must be an array of numbers whose first axis counts examples, not str of dtype "
            "<U5 and shape ().",
        ),
    ],
)
def test_a_batch_of_another_form_is_refused_in_one_sentence(batch: Any, sentence: str) -> None:
    with pytest.raises(TrainingError) as refused:
        FORM.flat(batch)
    assert str(refused.value) == sentence
