"""A kept hash is that of what is equal, and stays in its process."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

from autosync.spec import AllReduce, ParameterServer, Partition, Strategy, VariableStrategy
from tests import cases


def strategy(device: str = "node0/cpu:0") -> Strategy:
    return Strategy(
        ("node0/cpu:0", "node1/cpu:0"),
        (VariableStrategy("a", (ParameterServer(device),)), VariableStrategy("b", (AllReduce(3),))),
    )


def test_what_is_equal_has_one_hash_and_what_is_not_hardly_ever() -> None:
    assert hash(strategy()) == hash(strategy())
    assert {strategy(), strategy(), strategy("node1/cpu:0")} == {strategy(), strategy("node1/cpu:0")}
    assert hash(strategy()) != hash(strategy("node1/cpu:0"))
    assert hash(cases.star_cluster()) == hash(cases.star_cluster())


def test_a_hash_does_not_go_along_to_another_process_where_texts_have_others() -> None:
    known = strategy()
    hash(known), hash(known.variables[0])
    code = (
        "import pickle, sys\n"
        "from tests.spec.test_kept_hash import strategy\n"
        "assert pickle.loads(sys.stdin.buffer.read()) in {strategy()}"
    )
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", code],
            input=pickle.dumps(known),
            check=True,
            env={**_environment(), "PYTHONHASHSEED": seed},
        )


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": ":".join(each or os.getcwd() for each in sys.path)}


def test_the_different_synchronizers_of_a_variable_are_told_in_order() -> None:
    first, second, bucket = ParameterServer("n/cpu:1"), ParameterServer("n/cpu:0"), AllReduce(1)
    each = on(first, bucket, second, ParameterServer("n/cpu:1"))
    assert each.distinct == (first, bucket, second)
    assert (each.servers, each.reductions) == ((first, second), (bucket,))
    assert each.devices == ("n/cpu:1", "n/cpu:0", "n/cpu:1")
    assert each.with_others({bucket: AllReduce(2)}).shards == (first, AllReduce(2), second, first)
    assert each.with_others({bucket: AllReduce(1)}) is each


def on(*shards: ParameterServer | AllReduce) -> VariableStrategy:
    return VariableStrategy("v", shards, Partition(0, len(shards)))
