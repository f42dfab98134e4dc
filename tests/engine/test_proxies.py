"""Workers are reached directly even if the environment names a proxy."""

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from autosync.engine.core.proxies import bypassing
from tests.engine.worker_processes import REPOSITORY, quiet

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")

BOTH_CASES = (*PROXIES, *map(str.upper, PROXIES))

CLIENT = """
from autosync.engine.tensorflow.loading import load_tensorflow
load_tensorflow()
import tensorflow as tf
from autosync.engine.tensorflow.servers import connect
from tests.engine.worker_processes import worker_processes
with worker_processes(2) as addresses:
    connect(addresses)
    with tf.device("/job:worker/task:0"):
        value = tf.constant([1.0, 2.0])
    with tf.device("/job:worker/task:1"):
        print(float(tf.reduce_sum(value * 2)))
"""
"""A client whose second worker fetches a value from the first. Both workers inherit its environment."""


@pytest.fixture
def hanging_proxy() -> Iterator[str]:
    """The address of a proxy that accepts connections and never answers, as behind a firewall."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def refusing_proxy() -> str:
    """The address of a proxy that does not run."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("proxy", ["hanging_proxy", "refusing_proxy"])
def test_workers_exchange_values_past_a_proxy_that_does_not_serve(proxy: str, request: pytest.FixtureRequest) -> None:
    environment = {**quiet(), **dict.fromkeys(BOTH_CASES, request.getfixturevalue(proxy))}
    command = [sys.executable, "-c", CLIENT]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False, cwd=REPOSITORY
    )
    assert done.stdout.split() == ["6.0"], done.stderr[-2000:]


@pytest.mark.parametrize("name", BOTH_CASES)
def test_each_spelling_of_a_proxy_gets_exceptions_in_all_spellings(name: str) -> None:
    added = bypassing({name: "http://proxy:3128"}, ["10.0.0.1", "10.0.0.2"])
    assert set(added) == {"no_proxy", "NO_PROXY", "no_grpc_proxy", "NO_GRPC_PROXY"}
    assert set(added.values()) == {"localhost,127.0.0.1,::1,10.0.0.1,10.0.0.2"}


def test_exceptions_of_the_user_stay_and_are_not_listed_twice() -> None:
    stated = {"HTTPS_PROXY": "http://proxy:3128", "no_proxy": ".corp, 10.0.0.1", "NO_PROXY": ".lab"}
    added = bypassing(stated, ["10.0.0.1"])
    assert added["no_proxy"] == added["NO_PROXY"] == ".corp,10.0.0.1,.lab,localhost,127.0.0.1,::1"
    assert added["no_grpc_proxy"] == added["no_proxy"]  # gRPC would read only this list
    assert bypassing({**stated, **added}, ["10.0.0.1"]) == added


def test_a_list_of_its_own_for_grpc_stays_apart() -> None:
    stated = {"http_proxy": "http://proxy:3128", "no_proxy": ".corp", "no_grpc_proxy": ".rpc"}
    added = bypassing(stated, ["10.0.0.1"])
    assert added["no_proxy"] == ".corp,localhost,127.0.0.1,::1,10.0.0.1"
    assert added["no_grpc_proxy"] == ".rpc,localhost,127.0.0.1,::1,10.0.0.1"


def test_a_star_stays_alone_where_it_means_all_hosts() -> None:
    added = bypassing({"http_proxy": "http://proxy:3128", "no_proxy": "*"}, ["10.0.0.1"])
    assert added["no_proxy"] == added["NO_PROXY"] == "*"
    assert added["no_grpc_proxy"].endswith(",10.0.0.1")


def test_nothing_is_set_without_a_proxy() -> None:
    assert bypassing({"no_proxy": ".corp", "PATH": "/bin"}, ["10.0.0.1"]) == {}
