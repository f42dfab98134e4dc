"""Tensors as NumPy arrays, and back, in any dtype."""

from __future__ import annotations

import numpy as np
import torch

from autosync.numeric import AnyArray


def array_of(tensor: torch.Tensor) -> AnyArray:
    """The tensor's values as an array. A dtype that NumPy lacks becomes a field whose name is that dtype's."""
    values = tensor.detach().cpu().contiguous()
    try:
        array: AnyArray = values.numpy()
    except TypeError:  # bfloat16 and the types of 8 bits
        field = np.dtype([(str(values.dtype).removeprefix("torch."), f"V{values.element_size()}")])
        array = values.reshape(-1).view(torch.uint8).numpy().view(field).reshape(tuple(values.shape))
    return array


def tensor_of(array: AnyArray) -> torch.Tensor:
    """A tensor of its own with the values of an array from `array_of`."""
    copy = np.array(array, order="C")
    if copy.dtype.names is None:
        return torch.from_numpy(copy)
    dtype: torch.dtype = getattr(torch, copy.dtype.names[0])
    return torch.from_numpy(copy.reshape(-1).view(np.uint8)).view(dtype).reshape(copy.shape)
