"""The addresses where the processes of a search on one machine listen, read from the kernel's tables during a
search.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from autosync.engine.tensorflow import listening
from autosync.errors import ClusterError
from tests.tune.jobs import Job
from trials.workers.exposure import servers_listen

SERVER = """
import sys
from autosync.engine.tensorflow.servers import connect, start_server
_, address = start_server(sys.argv[1])
print(address, flush=True)
sys.stdin.readline()
"""

LISTENS = "0A"


def sockets_of(pids: list[int]) -> dict[str, str]:
    """Return the addresses at which these processes listen for TCP, as the kernel writes them, with their command
    lines.
    """
    sockets = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == LISTENS:
                sockets[f"socket:[{inode}]"] = local
    addresses = {}
    for pid in pids:
        try:
            files = {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()}
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:60]
        except OSError:
            continue  # it has ended
        addresses.update({sockets[file]: command for file in files if file in sockets})
    return addresses


def host_of(local: str) -> str:
    """Return the IP address in a line of /proc/net/tcp or tcp6, whose words are in this machine's byte order."""
    words = local.partition(":")[0]
    raw = b"".join(int(words[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(words), 8))
    if len(raw) == 16 and raw.startswith(bytes(10) + b"\xff\xff"):
        raw = raw[12:]
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)


def test_a_server_listens_at_its_address_only() -> None:
    for address in ("127.0.0.1", "127.0.0.9"):
        server = subprocess.Popen(
            [sys.executable, "-c", SERVER, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert server.stdout is not None
        try:
            told = server.stdout.readline().strip()
            assert [host_of(local) for local in sockets_of([server.pid])] == [address]
            host, _, port = told.rpartition(":")
            assert host == address
            socket.create_connection((address, int(port)), timeout=5).close()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.2", int(port)), timeout=5)
        finally:
            server.kill()
            server.communicate()


def test_an_address_of_another_machine_is_refused() -> None:
    from autosync.engine.tensorflow.servers import start_server

    with pytest.raises(ClusterError, match=r"no interface of this node has '192\.0\.2\.77' .*`--node-ip-address`"):
        start_server("192.0.2.77")


def test_the_listening_addresses_are_reported() -> None:
    assert servers_listen("The servers", ["127.0.0.1:1", "127.0.0.1:2"], is_open=False) == (
        "The servers listen on 127.0.0.1 only, where every user of this machine can connect."
    )
    trusted = "They ask for no password, so use a network that you trust."
    assert servers_listen("The servers", ["10.0.0.1:1", "10.0.0.2:1"], is_open=False) == (
        f"The servers listen at the nodes' addresses only. {trusted}"
    )
    assert servers_listen("The servers", ["10.77.0.1:1"], is_open=False, is_emulated=True) == (
        "The servers listen on the emulated network, which only its own nodes can reach."
    )
    assert servers_listen("The servers", ["127.0.0.1:1"], is_open=True) == (
        f"The servers listen on all interfaces. {trusted}"
    )


def test_a_search_on_one_machine_listens_on_loopback_only(tmp_path: Path) -> None:
    """No other machine can connect to Ray's processes, or to the workers' and TensorFlow's servers."""
    job = Job(tmp_path, "--model=mlp", "--workers=2", "--trials=8", "--seed=1", "--out=out", "--no-probe")
    try:
        job.wait_for("TensorFlow's servers listen on 127.0.0.1 only")
        sockets = sockets_of(job.processes())
        assert len(sockets) > 10, sockets
        assert {host_of(local) for local in sockets} == {"127.0.0.1"}, sockets
        assert any("ClientProcess" in command for command in sockets.values()), sockets
        assert any("WorkerProcess" in command for command in sockets.values()), sockets
        assert "Started a local Ray" in job.output
        assert "which listens on 127.0.0.1 only." in job.output
    finally:
        job.end()


def test_a_server_starts_as_tensorflow_has_it_if_no_table_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_another_form(base: int, entries: dict[int, int]) -> list[int]:
        raise KeyError(base, entries)

    monkeypatch.setattr(listening, "_slots", of_another_form)
    with listening.listening_at("127.0.0.9", Path(np.__file__).parents[1]), socket.socket() as server:
        server.bind(("0.0.0.0", 0))
        server.listen()
        assert listening.listens_on_all_interfaces(server.getsockname()[1])
