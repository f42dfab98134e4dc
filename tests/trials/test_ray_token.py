"""A command joins any running Ray cluster, with its token if the cluster requires one, and otherwise without a
token.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from ray.util import get_node_ip_address

from autosync.commands import main
from autosync.commands.shell import REFUSED
from tests.trials.plain_ray import PlainCluster, plain_cluster, started, user, with_token

RIGHT, WRONG = "a1" * 32, "b2" * 32
COPY = "Copy the file ~/.ray/auth_token of the cluster's head to ~/.ray/auth_token here (mode 600)"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainCluster]:
    """`ray start --head` by a user who has a token: Ray then requires it."""
    with plain_cluster(with_token(tmp_path_factory.mktemp("head") / "home", RIGHT)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainCluster]:
    """`ray start --head` by a user who has no token: Ray then requires none."""
    with plain_cluster(with_token(tmp_path_factory.mktemp("head") / "home", None)) as cluster:
        yield cluster


def test_a_cluster_that_requires_a_token_is_joined_with_the_token_of_ones_home(
    guarded: PlainCluster, tmp_path: Path
) -> None:
    done = guarded.join(with_token(tmp_path / "home", f"{RIGHT}\n"))
    assert done.stderr == ""
    assert done.stdout.splitlines()[0].endswith(", with the token in ~/.ray/auth_token.")
    assert done.stdout.splitlines()[1] == "53 1"


@pytest.mark.parametrize("variable", ["RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"])
def test_the_variables_of_ray_go_before_the_home(guarded: PlainCluster, tmp_path: Path, variable: str) -> None:
    file = tmp_path / "token"
    file.write_text(RIGHT)
    value = RIGHT if variable == "RAY_AUTH_TOKEN" else str(file)
    done = guarded.join(with_token(tmp_path / "home", WRONG), None, **{variable: value})
    assert (done.stderr, done.stdout.splitlines()[1]) == ("", "53 1")
    assert RIGHT not in done.stdout


def test_auto_finds_the_cluster_of_this_machine_and_sends_the_token(guarded: PlainCluster, tmp_path: Path) -> None:
    home = with_token(tmp_path / "home", RIGHT)
    done = guarded.join(home, "auto", RAY_ADDRESS=guarded.address)
    assert (done.stderr, done.stdout.splitlines()[1]) == ("", "53 1")


@pytest.mark.parametrize(
    ("token", "variables", "told"),
    [
        (None, {}, f"and there is no token here. {COPY}"),
        ("", {}, f"and there is no token here. {COPY}"),
        (WRONG, {}, f"and rejects the token in ~/.ray/auth_token. {COPY}"),
        (RIGHT, {"RAY_AUTH_TOKEN": WRONG}, f"and rejects the token in RAY_AUTH_TOKEN. {COPY}"),
        ("é\x07", {}, f"and rejects the token in ~/.ray/auth_token. {COPY}"),
        (RIGHT, {"RAY_AUTH_MODE": "disabled"}, "but RAY_AUTH_MODE=disabled turns it off here. Unset RAY_AUTH_MODE."),
    ],
)  # fmt: skip
def test_a_refusal_names_authentication_and_the_remedy(
    guarded: PlainCluster, tmp_path: Path, token: str | None, variables: dict[str, str], told: str
) -> None:
    done = guarded.join(with_token(tmp_path / "home", token), None, **variables)
    (line,) = done.stderr.splitlines()
    assert line.startswith("The Ray cluster at '")
    assert f"requires token authentication, {told}" in line
    assert (done.returncode, done.stdout) == (1, "")


def test_a_token_path_that_cannot_be_read_is_named(guarded: PlainCluster, tmp_path: Path) -> None:
    done = guarded.join(with_token(tmp_path / "home", RIGHT), None, RAY_AUTH_TOKEN_PATH=str(tmp_path / "none"))
    assert done.stderr == (
        f"RAY_AUTH_TOKEN_PATH names '{tmp_path}/none', which holds no readable token. Correct or unset it.\n"
    )


def command(home: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Return the output of `autosync` for the user with `home`."""
    line = [sys.executable, "-m", "autosync", *map(str, arguments)]
    return subprocess.run(line, env=user(home), cwd=home, capture_output=True, text=True, timeout=300, check=False)


def test_a_command_refuses_in_one_line(guarded: PlainCluster, tmp_path: Path) -> None:
    home = with_token(tmp_path / "home", None)
    done = command(home, "tune", "--model", "mlp", "--address", guarded.address)
    (line,) = done.stderr.splitlines()
    assert "requires token authentication, and there is no token here." in line
    assert done.returncode == REFUSED


def test_a_trial_runs_on_a_cluster_that_requires_a_token(guarded: PlainCluster, tmp_path: Path) -> None:
    home = with_token(tmp_path / "home", RIGHT)
    variables = [f"{layer}/{part}" for layer in ("dense_0", "dense_1", "logits") for part in ("kernel", "bias")]
    strategy = tmp_path / "strategy.json"
    document = {
        "format": "autosync.strategy/1",
        "replicas": ["node0/cpu:0", "node0/cpu:1"],
        "variables": [{"variable": variable, "shards": [{"all_reduce": 0}]} for variable in variables],
    }
    strategy.write_text(json.dumps(document))
    few = ("--steps", 3, "--warmup", 1, "--workers", 2, "--address", guarded.address)
    done = command(home, "trial", "--model", "mlp", "--strategy", strategy, *few)
    assert done.returncode == 0, done.stderr
    assert "Joined the Ray cluster at " in done.stdout


@pytest.mark.quick("unset-wrong", "on-wrong")
@pytest.mark.parametrize("token", [None, WRONG], ids=["none", "wrong"])
@pytest.mark.parametrize(
    "variables", [{}, {"RAY_AUTH_MODE": "token"}, {"RAY_AUTH_MODE": "disabled"}], ids=["unset", "on", "off"]
)
def test_a_cluster_without_authentication_is_joined_whatever_token_is_here(
    unguarded: PlainCluster, tmp_path: Path, token: str | None, variables: dict[str, str]
) -> None:
    done = unguarded.join(with_token(tmp_path / "home", token), None, **variables)
    assert (done.stderr, done.stdout.splitlines()[1]) == ("", "53 1")
    assert ("requires no token, although RAY_AUTH_MODE is token here" in done.stdout) == ("token" in variables.values())


def test_auto_joins_a_cluster_without_authentication(unguarded: PlainCluster, tmp_path: Path) -> None:
    home = with_token(tmp_path / "home", WRONG)
    done = unguarded.join(home, "auto", RAY_ADDRESS=unguarded.address)
    assert (done.stderr, done.stdout.splitlines()[1]) == ("", "53 1")


def test_a_worker_node_joins_as_the_docs_say(guarded: PlainCluster, tmp_path: Path) -> None:
    """docs/clusters.md: the token's file there, and RAY_AUTH_MODE=token before `ray start --address`."""
    home = with_token(tmp_path / "worker", RIGHT)
    environment = user(home, RAY_AUTH_MODE="token", AUTOSYNC_TEST_PLAIN_RAY=guarded.mark)
    options = [f"--address={guarded.address}", "--num-cpus=1", "--object-store-memory=80000000", "--block"]
    with started(options, tmp_path / "worker.log", environment):
        done = guarded.join(with_token(tmp_path / "home", RIGHT))
    assert (done.stderr, done.stdout.splitlines()[1]) == ("", "53 2")


def test_one_process_joins_one_cluster_after_the_other(
    guarded: PlainCluster, unguarded: PlainCluster, tmp_path: Path
) -> None:
    program = (
        "import os, ray, sys\n"
        "from trials.workers.local_ray import RayStart, start_ray\n"
        "for address in [*sys.argv[1:], None]:\n"
        "    start_ray(RayStart(address, dashboard=False))\n"
        "    print(ray.get(ray.remote(lambda: 53).remote(), timeout=90), os.environ.get('RAY_AUTH_MODE'))\n"
        "    ray.shutdown()\n"
    )
    home = with_token(tmp_path / "home", RIGHT)
    command = [sys.executable, "-c", program, guarded.address, unguarded.address, guarded.address]
    done = subprocess.run(command, env=user(home), capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.splitlines() == ["53 None", "53 None", "53 None", "53 token"], done.stderr


def test_a_port_where_something_else_listens_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server((get_node_ip_address(), 0)) as server:
        address = "{}:{}".format(*server.getsockname())
        answering = threading.Thread(target=_answer_as_a_web_server, args=(server,), daemon=True)
        answering.start()
        assert main(["tune", "--model", "mlp", "--address", address]) == REFUSED
    assert f"No Ray cluster answers at '{address}' (ConnectionError: " in capsys.readouterr().err


def _answer_as_a_web_server(server: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = server.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("ray://127.0.0.1:10001", "joins a Ray cluster at its head, HOST:PORT (6379 by default), not through 'ray://"),
        ("127.0.0.1:99999", "No Ray cluster answers at '127.0.0.1:99999' ("),
        ("127.0.0.1", "No Ray cluster answers at '127.0.0.1' ("),
    ],
)
def test_an_address_that_cannot_be_a_heads_is_refused(
    address: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", "--model", "mlp", "--address", address]) == REFUSED
    assert told in capsys.readouterr().err


def ensured(home: Path, **variables: str) -> str:
    """Return the token after `ensure_private_token` has run in a process of the user with `home`."""
    program = "from trials.workers import ray_token as r; r.ensure_private_token(); print(r._read_token())"
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, env=user(home, **variables), capture_output=True, text=True, check=True
    ).stdout.strip()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_token_that_is_made_for_a_local_ray_is_for_its_user_alone(tmp_path: Path) -> None:
    token = ensured(tmp_path)
    file = tmp_path / ".ray" / "auth_token"
    assert len(token) == 64
    assert file.read_text() == token
    assert (mode_of(file), mode_of(file.parent)) == (0o600, 0o700)
    assert os.listdir(file.parent) == ["auth_token"]


@pytest.mark.parametrize("token", [RIGHT, ""])
def test_a_token_that_ray_has_left_readable_for_all_becomes_private(tmp_path: Path, token: str) -> None:
    file = with_token(tmp_path / "home", token, mode=0o644) / ".ray" / "auth_token"
    assert ensured(tmp_path / "home") == file.read_text() != ""
    assert not token or file.read_text() == token
    assert mode_of(file) == 0o600


def test_a_file_that_the_token_links_to_keeps_its_mode(tmp_path: Path) -> None:
    home, elsewhere = with_token(tmp_path / "home", None), tmp_path / "elsewhere"
    elsewhere.write_text(RIGHT)
    elsewhere.chmod(0o644)
    (home / ".ray" / "auth_token").symlink_to(elsewhere)
    assert ensured(home) == RIGHT
    assert mode_of(elsewhere) == 0o644


def test_a_home_that_cannot_be_written_leaves_the_token_in_the_environment(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    assert len(ensured(tmp_path / "home")) == 64


def test_no_token_is_made_where_authentication_is_off(tmp_path: Path) -> None:
    assert ensured(tmp_path, RAY_AUTH_MODE="disabled") == ""
    assert not (tmp_path / ".ray").exists()


def test_processes_that_start_together_agree_on_one_token(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        tokens = set(pool.map(lambda _: ensured(tmp_path), range(4)))
    assert tokens == {(tmp_path / ".ray" / "auth_token").read_text()}
