"""Timing transfers between devices over TensorFlow's own transport."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

__all__ = ["TransferTime", "time_transfer"]

SMALL_BYTES = 1024


@dataclass(frozen=True)
class TransferTime:
    """Alpha and beta of one direction: seconds of a small message, and bytes a second of a big one."""

    latency_seconds: float
    bytes_per_second: float


def time_transfer(source: str, target: str, big_bytes: int = 4 << 20, repeats: int = 5) -> TransferTime:
    """Time messages from device `source` to device `target` (TensorFlow names); medians over `repeats`.

    What calling an empty function on both devices takes is measured beside and subtracted.
    """
    empty = _median_seconds(source, source, SMALL_BYTES, repeats)
    small = _median_seconds(source, target, SMALL_BYTES, repeats)
    big = _median_seconds(source, target, big_bytes, repeats)
    latency = max(small - empty, 1e-6)
    return TransferTime(latency, (big_bytes - SMALL_BYTES) / max(big - small, 1e-6))


def _median_seconds(source: str, target: str, message_bytes: int, repeats: int) -> float:
    import tensorflow as tf

    with tf.device(source):
        payload = tf.Variable(tf.zeros([message_bytes // 4]), trainable=False)

    @tf.function(autograph=False)
    def send() -> Any:
        with tf.device(source):
            value = payload.read_value()
        with tf.device(target):
            return value[0]

    def seconds() -> float:
        begin = time.perf_counter()
        float(send())
        return time.perf_counter() - begin

    seconds()  # builds the function
    seconds()
    return statistics.median(seconds() for _ in range(repeats))
