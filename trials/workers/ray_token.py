"""Ray's token authentication: whether a cluster requires a token, and the token of this user.

Ray reads `RAY_AUTH_TOKEN`, then the file named by `RAY_AUTH_TOKEN_PATH`, then `~/.ray/auth_token`. A driver must agree
with its cluster. Without a required token, Ray retries for 20 s. With a token in a cluster that uses none, the driver
loses its actors.
"""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]
from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc
from ray.exceptions import AuthenticationError

from autosync.errors import ClusterError, WriteError
from autosync.files import read_whole, write_atomically
from autosync.files.writing import temporary_beside

MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"

ANSWER_SECONDS = 20.0
"""Seconds that the head of a cluster has to answer one request."""

COPY = (
    "Copy the file ~/.ray/auth_token of the cluster's head to ~/.ray/auth_token here (mode 600), or set "
    "RAY_AUTH_TOKEN_PATH to a copy."
)


@contextmanager
def agree_on_token(head: str) -> Iterator[str]:
    """Let `ray.init` in the block send a token if the cluster at `head` (HOST:PORT) requires one; yield a remark.

    Afterwards the environment is as before; the connection keeps its token. Raises `ClusterError` if the token is
    missing or rejected, and `ConnectionError` if no Ray answers at `head`.
    """
    required = _rejects(head, "")
    remark = ""
    if required:
        source = _check_token(head)
        remark = f", with the token in {source}"
    elif os.environ.get(MODE, "").lower() == "token":
        remark = f", which requires no token, although {MODE} is token here"
    before = os.environ.get(MODE)
    _set_mode("token" if required else "disabled")
    try:
        yield remark
    finally:
        # The cached mode stays for this connection; Ray reads the variable again before it starts a cluster.
        os.environ.pop(MODE)
        if before is not None:
            os.environ[MODE] = before


def ensure_private_token() -> None:
    """Create a token for a Ray started here that other users cannot read.

    Ray itself writes `~/.ray/auth_token` with mode 644. If the home cannot be written, only the environment of this
    process and its children holds the token. With `RAY_AUTH_MODE=disabled` this function does nothing.
    """
    if os.environ.get(MODE, "token").lower() != "token":
        return
    _tighten(_default_path())
    if _read_token():
        return
    token = secrets.token_hex(32)
    try:
        _write_private(_default_path(), token)
    except (OSError, WriteError):
        os.environ[TOKEN] = token
    AuthenticationTokenLoader.instance().reset_cache()


def _check_token(head: str) -> str:
    """Return the source of the token that the cluster at `head` accepts. Raises `ClusterError` without such a token."""
    rule = f"The Ray cluster at {head!r} requires token authentication"
    if (mode := os.environ.get(MODE, "token")).lower() != "token":
        raise ClusterError(f"{rule}, but {MODE}={mode} turns it off here. Unset {MODE}.")
    token = _read_token()
    source = _source()
    if not token:
        raise ClusterError(f"{rule}, and there is no token here. {COPY}")
    if not token.isascii() or not token.isprintable() or _rejects(head, token):
        raise ClusterError(f"{rule}, and rejects the token in {source}. {COPY}")
    return source


def _read_token() -> str:
    """Return the token by Ray's own rules, or "".

    Raises `ClusterError` if RAY_AUTH_TOKEN_PATH names a file without one.
    """
    loader = AuthenticationTokenLoader.instance()
    loader.reset_cache()
    try:
        return str(loader.get_raw_token(ignore_auth_mode=True)) if loader.has_token(ignore_auth_mode=True) else ""
    except AuthenticationError:
        path = os.environ.get(TOKEN_PATH)
        raise ClusterError(
            f"{TOKEN_PATH} names {path!r}, which holds no readable token. Correct or unset it."
        ) from None


def _source() -> str:
    if os.environ.get(TOKEN):
        return TOKEN
    return os.environ.get(TOKEN_PATH) or "~/.ray/auth_token"


def _default_path() -> Path:
    return Path.home() / ".ray" / "auth_token"


def _rejects(head: str, token: str) -> bool:
    """True if the control store at `head` rejects a caller with `token`; "" stands for a caller without a token.

    Raises `ConnectionError` if no control store of Ray answers.
    """
    metadata = [("authorization", f"Bearer {token}")] if token else None
    with _channel(head) as channel:
        store = gcs_service_pb2_grpc.NodeInfoGcsServiceStub(channel)
        try:
            request = gcs_service_pb2.GetClusterIdRequest()  # type: ignore[attr-defined]
            store.GetClusterId(request, timeout=ANSWER_SECONDS, metadata=metadata)
        except grpc.RpcError as error:
            failure: Any = error
            if failure.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
                return True
            raise ConnectionError(f"{failure.code().name.lower()}: {failure.details()}") from None
    return False


def _channel(head: str) -> grpc.Channel:
    """Return a connection to `head` that bypasses any HTTP proxy, encrypted as `RAY_USE_TLS` says."""
    options = [("grpc.enable_http_proxy", 0)]
    if os.environ.get("RAY_USE_TLS", "0").lower() not in ("1", "true"):
        return grpc.insecure_channel(head, options)
    from ray._common.tls_utils import load_certs_from_env

    chain, key, authority = load_certs_from_env()
    return grpc.secure_channel(head, grpc.ssl_channel_credentials(authority, key, chain), options)


def _set_mode(mode: str) -> None:
    os.environ[MODE] = mode
    Config.initialize("")  # Ray cached the mode when it was imported
    AuthenticationTokenLoader.instance().reset_cache()


def _write_private(path: Path, token: str) -> None:
    """Write `token` to `path` with mode 600 unless another process has just done so. Raises `OSError`, `WriteError`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = temporary_beside(path)
    write_atomically(temporary, token, mode=0o600)
    try:
        if path.exists() and not read_whole(path).strip():
            path.unlink()
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()


def _tighten(path: Path) -> None:
    """Make the token at `path` unreadable for other users if it is this user's own file and no link."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_mode & 0o077:
                os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
