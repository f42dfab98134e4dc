"""Sends tensors from one device to another, in full precision or rounded to 16 bits.

Rounding. One message of numbers x, of largest magnitude m, arrives as y with

    bf16   |y - x| <= 2^-8 |x|
    fp16   |y - x| <= 2^-11 |x| + 2^-39 m

bfloat16 has 8 significant bits and float32's range. float16 has 11 bits, but its range is only 2^-14 (2^-24 with fewer
bits) to 65504. An fp16 message is therefore multiplied by a power of two that brings m between 2^14 and 2^15: no number
overflows, numbers down to 2^-28 m keep all 11 bits, and numbers under 2^-39 m become zero. The inverse of the power, a
float32, travels with the message. Numbers under 2^-126, the smallest normal float32, may become zero (TensorFlow
flushes them anyway). NaN and infinity arrive unchanged, and float64 numbers outside float32's range arrive as infinity,
so that a failed trial stays visible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from autosync.engine.tensorflow.arrays import end_to_end
from autosync.spec import Cast

FLOAT32_BIAS, FLOAT32_MANTISSA_BITS = 127, 23
LARGEST_EXPONENT = 14  # largest exponent in a float16 message; float16's own is 15, which rounding up must not reach
LARGEST_POWER = 126  # largest exponent of the power of two, so that its inverse is a normal float32


@dataclass(frozen=True)
class Message:
    """An encoded tensor: `payload`, which is read as `dtype`.

    With `scales`, a float32 vector, the payload has the parts of several messages end to end, of `sizes` elements, and
    the reader multiplies each part by its scale.
    """

    payload: tf.Tensor
    dtype: Any
    scales: Any = None
    sizes: tuple[int, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether the payload is the tensor itself, without encoding."""
        return bool(self.payload.dtype == self.dtype)

    def at(self, device: str) -> Message:
        """Forward the message to `device`, still encoded."""
        with tf.device(device):
            scales = None if self.scales is None else tf.raw_ops.Identity(input=self.scales)
            return Message(tf.raw_ops.Identity(input=self.payload), self.dtype, scales, self.sizes)

    def read(self, device: str) -> tf.Tensor:
        """Decode the tensor for ops on `device`. The result has the same bits on every device."""
        if self.is_plain:
            return self.payload
        with tf.device(device):
            tensor = tf.cast(self.payload, self.dtype)
            if self.scales is None:
                return tensor
            scales = tf.cast(self.scales, self.dtype)
            return tensor * (scales[0] if len(self.sizes) < 2 else tf.repeat(scales, self.sizes))


def join_messages(messages: Sequence[Message], device: str) -> Message:
    """Join flat messages end to end to one message, on `device`."""
    if len(messages) == 1:
        return messages[0]
    payload = end_to_end([message.payload for message in messages], device)
    if messages[0].scales is None:
        return Message(payload, messages[0].dtype)
    with tf.device(device):
        sizes = tuple(size for message in messages for size in message.sizes or (int(message.payload.shape[0]),))
        return Message(payload, messages[0].dtype, tf.concat([message.scales for message in messages], 0), sizes)


def read(messages: Sequence[Message], device: str) -> list[tf.Tensor]:
    """Decode flat messages for ops on `device`: in pieces if that saves an op, otherwise as one tensor."""
    if all(message.is_plain for message in messages):
        return [message.payload for message in messages]
    return [join_messages(messages, device).read(device)]


@dataclass(frozen=True)
class Wire:
    """Sends float tensors between devices, rounded to the type of `cast` on the way; None sends full precision."""

    cast: Cast | None = None

    def message(self, tensor: tf.Tensor, source: str) -> Message:
        """Encode `tensor`, which is on `source`; a float16 tensor needs no encoding for fp16."""
        if self.cast is None or (self.cast.dtype == "fp16" and tensor.dtype == tf.float16):
            return Message(tensor, tensor.dtype)
        with tf.device(source):
            if self.cast.dtype == "bf16":
                return Message(tf.cast(tensor, tf.bfloat16), tensor.dtype)
            power, inverse = _power_of_two(tensor)
            payload = tf.cast(tensor * tf.cast(power, tensor.dtype), tf.float16)
            return Message(payload, tensor.dtype, tf.reshape(inverse, [1]))

    def over(self, tensor: tf.Tensor, source: str, target: str) -> tf.Tensor:
        """Send `tensor` from `source`; return it in its own dtype for ops on `target`."""
        return self.message(tensor, source).read(target)

    def add(self, tensor: tf.Tensor, source: str, local: Any, target: str) -> tf.Tensor:
        """Send `tensor` from `source` to `target` and add it there to `local`."""
        arrived = self.over(tensor, source, target)
        with tf.device(target):
            return tf.raw_ops.AddV2(x=arrived, y=local)

    def as_received(self, tensor: tf.Tensor, device: str) -> tf.Tensor:
        """Return `tensor`, which is on `device`, as every receiver reads it; the owner must use this value too."""
        return self.over(tensor, device, device)


PLAIN = Wire()


def _power_of_two(tensor: tf.Tensor) -> tuple[Any, Any]:
    """Return the power of two for `tensor`, and its inverse, both exact float32 scalars.

    Both are built from the bits of the exponent. A tensor of zeros, or without elements, has a power as well. For a
    tensor with infinity or NaN, the power is that of the largest exponent.
    """
    largest = tf.bitcast(tf.cast(tf.reduce_max(tf.abs(tensor)), tf.float32), tf.int32)
    biased = tf.bitwise.bitwise_and(tf.bitwise.right_shift(largest, FLOAT32_MANTISSA_BITS), 0xFF)
    exponent = tf.minimum(LARGEST_EXPONENT + FLOAT32_BIAS - biased, LARGEST_POWER)

    def two_to(power: Any) -> tf.Tensor:
        return tf.bitcast(tf.bitwise.left_shift(power + FLOAT32_BIAS, FLOAT32_MANTISSA_BITS), tf.float32)

    return two_to(exponent), two_to(-exponent)
