"""What processes of a host are told by their environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosync.engine.servers import OWN_THREADS
from trials.emulate.hosts import Host, environment


def host(cores: float) -> Host:
    return Host("node0", 0, "10.77.0.1", "namespace", Path("/folder"), "10.77.0.1:6379", cores)


@pytest.mark.parametrize(("cores", "threads"), [(0.5, "1"), (4.0, "4"), (2.5, "2")])
def test_tensorflow_has_the_threads_that_a_host_has_cores_to_count_on(cores: float, threads: str) -> None:
    assert environment(host(cores), {})[OWN_THREADS] == threads


def test_a_number_of_threads_of_the_users_own_is_kept() -> None:
    assert environment(host(1.0), {OWN_THREADS: "8"})[OWN_THREADS] == "8"
