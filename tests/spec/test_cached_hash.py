"""Equal nouns have equal cached hashes, and a cached hash stays in its process."""

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


def test_equal_nouns_have_equal_hashes_and_different_ones_rarely() -> None:
    assert hash(strategy()) == hash(strategy())
    assert {strategy(), strategy(), strategy("node1/cpu:0")} == {strategy(), strategy("node1/cpu:0")}
    assert hash(strategy()) != hash(strategy("node1/cpu:0"))
    assert hash(cases.star_cluster()) == hash(cases.star_cluster())


def test_a_hash_does_not_go_along_to_another_process_where_texts_have_others() -> None:
    known = strategy()
    hash(known), hash(known.variables[0])
    code = (
        "import pickle, sys\n"
        "from tests.spec.test_cached_hash import strategy\n"
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
    return {**os.environ, "PYTHONPATH": ":".join(entry or os.getcwd() for entry in sys.path)}


def test_the_distinct_synchronizers_of_a_variable_are_in_order() -> None:
    first, second, bucket = ParameterServer("n/cpu:1"), ParameterServer("n/cpu:0"), AllReduce(1)
    decision = on(first, bucket, second, ParameterServer("n/cpu:1"))
    assert decision.distinct == (first, bucket, second)
    assert (decision.servers, decision.reductions) == ((first, second), (bucket,))
    assert decision.devices == ("n/cpu:1", "n/cpu:0", "n/cpu:1")
    assert decision.replace_synchronizers({bucket: AllReduce(2)}).shards == (first, AllReduce(2), second, first)
    assert decision.replace_synchronizers({bucket: AllReduce(1)}) is decision


def on(*shards: ParameterServer | AllReduce) -> VariableStrategy:
    return VariableStrategy("v", shards, Partition(0, len(shards)))
