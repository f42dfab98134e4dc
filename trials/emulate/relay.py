"""Relays a port of this machine to the dashboard in an emulated cluster."""

import asyncio
import contextlib
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import trials
from trials.emulate import isolation as namespaces
from trials.emulate.lifeline import lifeline
from trials.emulate.listed import cluster_mark
from trials.emulate.network import NETNS
from trials.emulate.processes import Process

CHUNK_BYTES = 1 << 16


def start_relay(namespace: str, address: str, port: int, folder: Path) -> tuple[str, Process]:
    """Start a relay to `address:port` in the network `namespace`; return its URL on 127.0.0.1, and its process.

    `folder` is that of the emulated cluster; the relay ends with the cluster's owner.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener, lifeline(folder) as end:
        number = listener.fileno()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        relay = subprocess.Popen(
            [sys.executable, "-m", "trials.emulate.relay", str(number), str(NETNS / namespace), address, str(port)],
            env={"PYTHONPATH": str(Path(trials.__file__).resolve().parents[1]), "PATH": os.defpath}
            | cluster_mark(folder),
            pass_fds=[number],
            start_new_session=True,
            cwd="/",
            stdin=subprocess.DEVNULL if end is None else end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    relay.returncode = 0  # the process must outlive this object, which would warn otherwise; `end_all` reaps it
    return url, Process.of(relay.pid)


async def serve(listener: socket.socket, address: str, port: int) -> None:
    """Relay connections of `listener` to `address:port`. If the input is a lifeline, stop when it ends."""
    if stat.S_ISFIFO(os.fstat(0).st_mode):
        asyncio.get_running_loop().add_reader(0, os._exit, 0)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            there, back = await asyncio.open_connection(address, port)
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
        writer.close()

    server = await asyncio.start_server(relay, sock=listener)
    await server.serve_forever()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(CHUNK_BYTES):
            target.write(data)
            await target.drain()
    target.close()


def main(number: str, namespace: str, address: str, port: str) -> None:
    """Relay from a listening socket, which was opened outside and stays there, to connections made from inside."""
    listener = socket.socket(fileno=int(number))
    network = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    namespaces.enter(network, namespaces.NETWORK)
    os.close(network)
    asyncio.run(serve(listener, address, int(port)))


if __name__ == "__main__":
    main(*sys.argv[1:])
