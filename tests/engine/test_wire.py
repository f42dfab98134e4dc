"""The wire: messages after their arrival, in 16 bits and in full precision."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from autosync.engine.tensorflow.sync.row_wire import rows_at
from autosync.engine.tensorflow.sync.wire import PLAIN, Wire, join_messages
from autosync.spec import Cast

SOURCE, TARGET = "/CPU:0", "/CPU:1"
BF16, FP16 = Wire(Cast("bf16")), Wire(Cast("fp16"))
SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)


def _arrived(wire: Wire, tensor: np.ndarray) -> np.ndarray:
    return wire.over(tf.constant(tensor), SOURCE, TARGET).numpy()


def _bound(wire: Wire, sent: np.ndarray) -> np.ndarray:
    """The bound in the wire's docstring, plus a float64's second rounding on its way through float32."""
    sent = np.abs(sent.astype(np.float64))
    relative, of_largest = (2.0**-8, 0.0) if wire is BF16 else (2.0**-11, 2.0**-39)
    return relative * (1 + 2.0**-12) * sent + of_largest * sent.max(initial=0.0) + SMALLEST_NORMAL


def _close(wire: Wire, sent: np.ndarray) -> None:
    arrived = _arrived(wire, sent)
    assert arrived.dtype == sent.dtype
    assert arrived.shape == sent.shape
    assert (np.abs(arrived.astype(np.float64) - sent) <= _bound(wire, sent)).all()


_NUMBERS = st.floats(-(2.0**126), 2.0**126, width=32)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("wire", [BF16, FP16], ids=["bf16", "fp16"])
class TestRounding:
    @settings(max_examples=150, deadline=None)
    @given(numbers=st.lists(_NUMBERS, min_size=1, max_size=9))
    def test_any_numbers_arrive_within_the_stated_bound(self, wire, dtype, numbers):
        _close(wire, np.array(numbers, dtype))

    @settings(max_examples=50, deadline=None)
    @given(largest=st.floats(2.0**-100, 2.0**126), seed=st.integers(0, 2**32 - 1))
    def test_gradients_of_any_size_arrive_within_the_stated_bound(self, wire, dtype, largest, seed):
        rng = np.random.default_rng(seed)
        _close(wire, (largest * rng.normal(size=64).clip(-1, 1) * 2.0 ** rng.integers(-45, 1, 64)).astype(dtype))

    def test_the_bound_is_nearly_reached(self, wire, dtype):
        sent = np.array([1 + (2.0**-8 if wire is BF16 else 2.0**-11)], dtype)
        off = np.abs(_arrived(wire, sent) - sent) / _bound(wire, sent)
        assert 0.98 < off[0] <= 1

    @pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (0,), (0, 4)])
    def test_zeros_scalars_and_empty_messages_arrive_as_they_are(self, wire, dtype, shape):
        arrived = _arrived(wire, np.zeros(shape, dtype))
        assert arrived.shape == shape
        assert not arrived.any()

    @pytest.mark.parametrize("others", [0.0, 1.0, 1e-30, 1e30])
    def test_nan_and_infinity_arrive(self, wire, dtype, others):
        arrived = _arrived(wire, np.array([others, np.nan, np.inf, -np.inf, others], dtype))
        np.testing.assert_array_equal(arrived[1:4], np.array([np.nan, np.inf, -np.inf], dtype))
        assert np.isfinite(_arrived(wire, np.array([others], dtype))).all()

    def test_a_tensor_as_received_is_the_tensor_that_arrives(self, wire, dtype):
        sent = np.random.default_rng(0).normal(size=101).astype(dtype)
        received = wire.as_received(tf.constant(sent), SOURCE).numpy()
        assert received.tobytes() == _arrived(wire, sent).tobytes()

    def test_messages_end_to_end_are_read_as_each_alone(self, wire, dtype):
        rng = np.random.default_rng(1)
        sent = [(rng.normal(size=size) * scale).astype(dtype) for size, scale in ((5, 1e-9), (1, 1e9), (3, 0.0))]
        messages = [wire.message(tf.constant(array), SOURCE) for array in sent]
        inner = join_messages(messages[1:], TARGET)
        nested = join_messages([messages[0].at(TARGET), inner], TARGET).read(TARGET).numpy()
        assert nested.tobytes() == b"".join(_arrived(wire, array).tobytes() for array in sent)


@pytest.mark.parametrize("power", [-126, -60, -1, 0, 15, 90, 126])
def test_in_fp16_numbers_around_a_power_of_two_neither_overflow_nor_lose_bits(power):
    sent = np.nextafter(np.float32(2.0**power), np.array([0, np.inf], np.float32))
    _close(FP16, sent)


def test_a_float64_out_of_float32s_range_arrives_as_infinity():
    for wire in (BF16, FP16):
        np.testing.assert_array_equal(_arrived(wire, np.array([-1e300, 1.0]))[0], -np.inf)


def test_float16_numbers_are_fp16_already_and_arrive_bit_by_bit():
    sent = np.array([6e-8, -1.5, 65504.0], np.float16)
    np.testing.assert_array_equal(_arrived(FP16, sent), sent)


def test_a_whole_message_arrives_bit_by_bit():
    sent = np.array([1.0, -1e-45, 3e38, np.nan, np.inf], np.float32)
    assert _arrived(PLAIN, sent).tobytes() == sent.tobytes()
    assert PLAIN.as_received(tf.constant(sent), SOURCE).numpy().tobytes() == sent.tobytes()


@pytest.mark.parametrize("wire", [PLAIN, BF16, FP16], ids=["whole", "bf16", "fp16"])
def test_rows_that_stay_are_rounded_like_rows_that_travel(wire):
    rows = tf.constant(np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32))
    here, there = rows_at(SOURCE, [SOURCE, TARGET], [rows, rows], wire.cast)
    assert here.numpy().tobytes() == there.numpy().tobytes() == _arrived(wire, rows.numpy()).tobytes()
