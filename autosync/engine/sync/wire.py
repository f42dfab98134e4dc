"""The wire: how a tensor gets from one device to another, whole or in 16 bits.

Rounding. One message of numbers x, of largest magnitude m, arrives as y with

    bf16   |y - x| <= 2^-8 |x|
    fp16   |y - x| <= 2^-11 |x| + 2^-39 m

bfloat16 has 8 significant bits and float32's range. float16 has 11, but reaches from 2^-14 (2^-24 with fewer bits) to
65504 only, so that an fp16 message is multiplied by a power of two that brings m between 2^14 and 2^15: none of its
numbers overflows, those down to 2^-28 m keep all 11 bits, and those under 2^-39 m vanish. The power, a float32,
travels beside them. Numbers under float32's smallest normal one, 2^-126, may become zero (TensorFlow flushes them
anyway); NaN and infinity arrive as they are, and float64 numbers out of float32's range as infinity, so that a failed
trial stays visible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autosync.engine.arrays import end_to_end
from autosync.spec import Cast

FLOAT32_BIAS, FLOAT32_MANTISSA_BITS = 127, 23
LARGEST_EXPONENT = 14  # largest exponent in a float16 message; float16's own is 15, which rounding up must not reach
LARGEST_POWER = 126  # largest exponent of the power of two, so that its inverse is a normal float32


@dataclass(frozen=True)
class Message:
    """A tensor as it travels: `payload`, which once read is of type `dtype`.

    With `scales`, a float32 vector, the payload is the parts of several messages end to end, and each part of it is
    to be multiplied by its scale.
    """

    payload: Any
    dtype: Any
    scales: Any = None
    sizes: tuple[int, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether the payload is what was sent."""
        return bool(self.payload.dtype == self.dtype)

    def at(self, device: str) -> Message:
        """The message sent on to `device`, as it is."""
        import tensorflow as tf

        with tf.device(device):
            scales = None if self.scales is None else tf.raw_ops.Identity(input=self.scales)
            return Message(tf.raw_ops.Identity(input=self.payload), self.dtype, scales, self.sizes)

    def read(self, device: str) -> Any:
        """What was sent, for ops on `device` to read: the same bits on every device."""
        import tensorflow as tf

        if self.is_plain:
            return self.payload
        with tf.device(device):
            tensor = tf.cast(self.payload, self.dtype)
            if self.scales is None:
                return tensor
            scales = tf.cast(self.scales, self.dtype)
            return tensor * (scales[0] if len(self.sizes) < 2 else tf.repeat(scales, self.sizes))


def joined(messages: Sequence[Message], device: str) -> Message:
    """Flat messages end to end as one, on `device`."""
    import tensorflow as tf

    if len(messages) == 1:
        return messages[0]
    payload = end_to_end([each.payload for each in messages], device)
    if messages[0].scales is None:
        return Message(payload, messages[0].dtype)
    with tf.device(device):
        sizes = tuple(size for each in messages for size in each.sizes or (int(each.payload.shape[0]),))
        return Message(payload, messages[0].dtype, tf.concat([each.scales for each in messages], 0), sizes)


def read(messages: Sequence[Message], device: str) -> list[Any]:
    """What flat messages brought, for ops on `device` to read: in pieces where that spares an op, otherwise as one."""
    if all(each.is_plain for each in messages):
        return [each.payload for each in messages]
    return [joined(messages, device).read(device)]


@dataclass(frozen=True)
class Wire:
    """Sends float tensors between devices, rounded to `cast` on the way if there is one."""

    cast: Cast | None = None

    def message(self, tensor: Any, source: str) -> Message:
        """`tensor`, which is on `source`, made ready to be sent; float16 numbers are as fp16 already."""
        import tensorflow as tf

        if self.cast is None or (self.cast.dtype == "fp16" and tensor.dtype == tf.float16):
            return Message(tensor, tensor.dtype)
        with tf.device(source):
            if self.cast.dtype == "bf16":
                return Message(tf.cast(tensor, tf.bfloat16), tensor.dtype)
            power, inverse = _power_of_two(tensor)
            scaled = tf.cast(tensor * tf.cast(power, tensor.dtype), tf.float16)
            return Message(scaled, tensor.dtype, tf.reshape(inverse, [1]))

    def over(self, tensor: Any, source: str, target: str) -> Any:
        """`tensor`, which is on `source`, in its own dtype again, for ops on `target` to read."""
        return self.message(tensor, source).read(target)

    def added(self, tensor: Any, source: str, own: Any, target: str) -> Any:
        """The sum of `own`, which is on `target`, and of `tensor` as it arrives there from `source`."""
        import tensorflow as tf

        arrived = self.over(tensor, source, target)
        with tf.device(target):
            return tf.raw_ops.AddV2(x=arrived, y=own)

    def settled(self, tensor: Any, device: str) -> Any:
        """What every receiver will get of `tensor`, which is on `device`: what its owner must keep itself."""
        return self.over(tensor, device, device)


PLAIN = Wire()


def _power_of_two(tensor: Any) -> tuple[Any, Any]:
    """The power of two to multiply `tensor` with, and its inverse, both exact float32 scalars.

    They are put together from the exponent's bits. A tensor of zeros, or of none, has one as well; where a number is
    infinite or NaN, that of the largest exponent.
    """
    import tensorflow as tf

    largest = tf.bitcast(tf.cast(tf.reduce_max(tf.abs(tensor)), tf.float32), tf.int32)
    biased = tf.bitwise.bitwise_and(tf.bitwise.right_shift(largest, FLOAT32_MANTISSA_BITS), 0xFF)
    exponent = tf.minimum(LARGEST_EXPONENT + FLOAT32_BIAS - biased, LARGEST_POWER)

    def two_to(power: Any) -> Any:
        return tf.bitcast(tf.bitwise.left_shift(power + FLOAT32_BIAS, FLOAT32_MANTISSA_BITS), tf.float32)

    return two_to(exponent), two_to(-exponent)
