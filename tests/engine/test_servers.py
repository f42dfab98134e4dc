"""Devices of one process, and transfers between them."""

from __future__ import annotations

import pytest
import tensorflow as tf

from autosync.engine.tensorflow.servers import start_server, use_logical_devices
from autosync.errors import ClusterError


def test_fewer_devices_than_there_are_may_be_asked_for_again():
    have = len(tf.config.list_logical_devices("CPU"))
    use_logical_devices(have)
    use_logical_devices(1)
    assert len(tf.config.list_logical_devices("CPU")) == have


def test_more_devices_cannot_be_had_once_tensorflow_is_used():
    wanted = len(tf.config.list_logical_devices("CPU")) + 1
    with pytest.raises(ClusterError, match=rf"A process must ask for its {wanted} devices before it uses TensorFlow"):
        use_logical_devices(wanted)


@pytest.mark.parametrize(("cores", "own", "threads"), [(3.5, None, 3), (0.4, None, 1), (None, None, 0), (4, "2", 0)])
def test_a_server_has_a_thread_for_each_of_its_cores_unless_the_user_says_how_many(monkeypatch, cores, own, threads):
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    if own:
        monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", own)
    server, _ = start_server("127.0.0.1", cores)
    assert server.server_def.default_session_config.intra_op_parallelism_threads == threads
