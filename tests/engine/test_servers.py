"""Devices of one process, and transfers between them."""

from __future__ import annotations

import pytest
import tensorflow as tf

from autosync.engine.servers import use_logical_devices
from autosync.errors import ClusterError


def test_fewer_devices_than_there_are_may_be_asked_for_again():
    have = len(tf.config.list_logical_devices("CPU"))
    use_logical_devices(have)
    use_logical_devices(1)
    assert len(tf.config.list_logical_devices("CPU")) == have


def test_more_devices_cannot_be_had_once_tensorflow_is_used():
    wanted = len(tf.config.list_logical_devices("CPU")) + 1
    with pytest.raises(
        ClusterError, match=rf"{wanted} devices in one process must be asked for before TensorFlow is us"
    ):
        use_logical_devices(wanted)
