"""The environment of the processes of a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosync.engine.tensorflow.servers import OWN_THREADS
from trials.emulate.hosts import Host, environment


def host(cores: float, *peers: str) -> Host:
    return Host("node0", 0, "10.77.0.1", "namespace", Path("/folder"), "10.77.0.1:6379", cores, peers=peers)


@pytest.mark.parametrize(("cores", "threads"), [(0.5, "1"), (4.0, "4"), (2.5, "2")])
def test_tensorflow_has_the_threads_that_a_host_has_cores_to_count_on(cores: float, threads: str) -> None:
    assert environment(host(cores), {})[OWN_THREADS] == threads


def test_a_number_of_threads_of_the_users_own_is_kept() -> None:
    assert environment(host(1.0), {OWN_THREADS: "8"})[OWN_THREADS] == "8"


def test_a_proxy_stands_between_no_hosts() -> None:
    told = environment(host(1.0, "10.77.0.1", "10.77.0.2"), {"https_proxy": "http://proxy:3128", "NO_PROXY": ".corp"})
    for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
        assert {".corp", "10.77.0.1", "10.77.0.2"} <= set(told[name].split(","))
