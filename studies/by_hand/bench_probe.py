"""Compares probed rates of links with their configured rates, on emulated clusters.

    python -m studies.by_hand.bench_probe 4x1gbit 4x200mbit topologies/two_racks.yaml

Needs root. A cluster is emulated (without Ray), a TensorFlow server is started in each host, and the client runs in the
first host. `can fill` is the rate that the surrounding links can feed into a link; the probed rate is compared with it.
TCP loses 4.4 % to headers in frames of 1 500 bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from autosync.spec import ClusterSpec, Node
from studies.by_hand.peers.links import cluster_of
from trials.probe import Probing
from trials.probe.flows import Ends, ends_of, fair_rates
from trials.probe.schedule import fill_probe, fillable_links

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}


def probing_of(cluster: ClusterSpec, name: str = "bench-probe") -> Probing:
    """Emulate `cluster`, probe it and take it down again."""
    from trials.emulate import emulated

    with emulated(name, cluster, start_ray=False) as made, _servers(made) as addresses:
        request = json.dumps({"cluster": made.cluster.to_json(), "addresses": addresses})
        with _part(made.hosts[0], "client") as client:
            answer, _ = client.communicate(request)
    assert client.returncode == 0, f"The client must end with code 0, but ended with {client.returncode}."
    return Probing.from_json(json.loads(answer.splitlines()[-1]))


@contextmanager
def _servers(made: Any) -> Iterator[list[str]]:
    """Start a server in each host; yield the addresses in the order of the cluster's server devices."""
    with ExitStack() as stack:
        nodes = [node for node in made.cluster.nodes for _ in range(node.workers)]
        servers = [stack.enter_context(_part(made.host(node.name), "serve", node.address)) for node in nodes]
        yield [str(server.stdout.readline()).strip() for server in servers]


@contextmanager
def _part(host: Any, *arguments: str) -> Iterator[Any]:
    """Start this program as a process in `host`, and kill the process at the end of the block."""
    from trials.emulate import start_inside

    command = [sys.executable, "-m", "studies.by_hand.bench_probe", *arguments]
    process = start_inside(
        host, command, env=os.environ | QUIET, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _serve(address: str) -> None:
    from autosync.engine.tensorflow.servers import start_server

    server, at = start_server(address)
    print(at, flush=True)
    sys.stdin.read()
    del server


def _client() -> None:
    from autosync.engine.tensorflow.servers import connect
    from trials.workers.processes import ClientProcess

    request = json.load(sys.stdin)
    client = ClientProcess("tensorflow", (), trials_a_connection=50)
    connect(request["addresses"])
    print(json.dumps(client.probe(ClusterSpec.from_json(request["cluster"])).to_json()))


def _print(text: str, stated: ClusterSpec, probing: Probing, seconds: float) -> None:
    print(f"\n{text}: probed in {probing.report['seconds']:.1f} s ({seconds:.0f} s including setup and teardown)")
    print(f"{'link, Mbit/s':24} {'set to':>9} {'can fill':>9} {'probed':>9} {'error':>7}   latency")
    can_fill = _can_fill(stated)
    for was, link in zip(stated.links, probing.cluster.links, strict=True):
        if link.gbit_per_s.source == "measured":
            most = can_fill.get(ends_of(link), was.gbit_per_s.value)
            print(
                f"{link.source + ' -> ' + link.target:24} {was.gbit_per_s.value * 1e3:9.1f} {most * 1e3:9.1f} "
                f"{link.gbit_per_s.value * 1e3:9.1f} {link.gbit_per_s.value / most - 1:+7.1%}   "
                f"{link.latency_us.value:.0f} us"
            )
    for node in probing.cluster.nodes:
        print(f"{node.name}: {_figures(node)}")


def _can_fill(stated: ClusterSpec) -> dict[Ends, float]:
    """Return the Gbit/s that the surrounding links can feed into each link, which no traffic can exceed."""
    rates = {ends_of(link): link.gbit_per_s.value for link in stated.links}
    rates_of = {}
    for link, pairs in fillable_links(stated).items():
        flows = fill_probe(stated, link, pairs, rates).flows
        routes = [[ends_of(link) for link in stated.route(flow.source, flow.target)] for flow in flows]
        rates_of[link] = sum(fair_rates(routes, rates))
    return rates_of


def _figures(node: Node) -> str:
    copy, message = node.copy_gbit_per_s, node.message_us
    words = [f"copies {copy.value:.0f} Gbit/s"] if copy else []
    return ", ".join(words + ([f"{message.value:.0f} us a message"] if message else [])) or "no time left to measure"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topologies", nargs="+", help="such as 4x200mbit, or a cluster file")
    for text in parser.parse_args().topologies:
        begin = time.perf_counter()
        stated = cluster_of(text)
        _print(text, stated, probing_of(stated), time.perf_counter() - begin)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        _serve(sys.argv[2])
    elif sys.argv[1:2] == ["client"]:
        _client()
    else:
        main()
