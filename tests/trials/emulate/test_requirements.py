"""Requirements of a machine, and the place of CPU quotas."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from autosync.errors import ClusterError
from trials.emulate.obstacles import obstacle
from trials.emulate.quotas import make_quota, quota_group
from trials.emulate.requirements import Machine

TOOLS = frozenset({"ip", "tc", "sleep"})
ROOT = (1 << 12) | (1 << 21)


def test_root_on_linux_with_its_tools_lacks_nothing() -> None:
    assert Machine("linux", ROOT, TOOLS).lacks() is None


@pytest.mark.parametrize(
    ("machine", "sentence"),
    [
        (Machine("darwin", 0, TOOLS), "it needs Linux's network namespaces, and this is darwin"),
        (Machine("linux", ROOT, TOOLS - {"tc"}), "the command 'tc' is not on the PATH; install iproute2"),
        (Machine("linux", 0, TOOLS), "it needs root to make namespaces"),
        (
            Machine("linux", 1 << 12, TOOLS),
            "did not call trials.emulate.begin_as_root first; have it do so",
        ),
    ],
)
def test_the_missing_requirement_is_named(machine: Machine, sentence: str) -> None:
    assert sentence in str(machine.lacks())


V1 = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
V1_SET = "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
V2 = "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(
    ("mounts", "group"),
    [
        (V2 + V1_SET + V1, "/sys/fs/cgroup/cpu/g"),
        (V2, "/sys/fs/cgroup/g"),
        (V1_SET + V2, "/sys/fs/cgroup/g"),
    ],
)
def test_a_quota_goes_to_the_cpu_controller_of_either_version(mounts: str, group: str) -> None:
    assert quota_group("g", mounts) == Path(group)


@pytest.mark.parametrize(
    ("mounts", "memberships", "group"),
    [
        ("31 1 0:29 / {top} rw - cgroup cgroup rw,cpu,cpuacct\n", "5:memory:/else\n1:cpu,cpuacct:/a/b\n", "a/b/g"),
        ("31 1 0:29 / {top} rw - cgroup2 cgroup2 rw\n", "0::/a/b\n", "a/g"),
        ("31 1 0:29 / {top} rw - cgroup2 cgroup2 rw\n", "0::/other/b\n", "g"),
    ],
)
def test_a_quota_of_who_may_not_write_at_the_top_lies_near_the_process(
    tmp_path: Path, mounts: str, memberships: str, group: str
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for folder in ("a", "a/b"):
        (tmp_path / folder / "cgroup.procs").touch()
    assert quota_group("g", mounts.format(top=tmp_path), memberships) == tmp_path / group


def test_without_control_groups_a_quota_is_refused_in_a_sentence() -> None:
    with pytest.raises(ClusterError, match=r"controller of control groups, and none is mounted; omit .* `pace`"):
        quota_group("g", V1_SET)


def test_a_quota_that_cannot_be_written_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"A quota of 0.5 cores cannot be written to .*No such file"):
        make_quota(tmp_path / "missing" / "group", 0.5)


def read(**settings: str) -> Callable[[str], str | None]:
    """Return the files of a machine with user namespaces, by the last parts of their names."""
    files = {"uid_map": "0 0 4294967295", **settings}
    return lambda file: next((text for name, text in files.items() if file.endswith(f"/{name}")), None)


REFUSED = OSError(errno.EPERM, "unshare: Operation not permitted")


@pytest.mark.parametrize(
    ("error", "settings", "told"),
    [
        (REFUSED, {"unprivileged_userns_clone": "0"}, "/proc/sys/kernel/unprivileged_userns_clone is 0; write 1 to it"),
        (
            PermissionError(errno.EACCES, "Permission denied", "/proc/self/uid_map"),
            {"unprivileged_userns_clone": "1", "apparmor_restrict_unprivileged_userns": "1"},
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns is 1; write 0 to it",
        ),
        (
            OSError(errno.ENOSPC, "unshare: No space left on device"),
            {"max_user_namespaces": "0"},
            "/proc/sys/user/max_user_namespaces is 0; write a thousand to it",
        ),
        (
            OSError(errno.ENOSPC, "unshare: No space left on device"),
            {"max_user_namespaces": "9"},
            "there are as many as a limit in /proc/sys/user allows; raise it",
        ),
        (OSError(errno.EPERM, "Operation not permitted", "/proc"), {}, "/proc cannot be mounted in one, as in most"),
        (
            REFUSED,
            {"status": "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1"},
            "a container's seccomp filter forbids them",
        ),
        (REFUSED, {"status": "Name:\tx\nSeccomp:\t0\n"}, "this machine refuses them ([Errno 1] unshare: Operation not"),
    ],
)
def test_the_setting_that_is_in_an_ordinary_users_way_is_named(
    error: OSError, settings: dict[str, str], told: str
) -> None:
    sentence = obstacle(error, read(**settings))
    assert sentence.startswith(f"an ordinary user needs user namespaces, and {told}")
    assert sentence.endswith(", or run it as root")


def test_root_without_capabilities_is_told_which_and_not_of_ordinary_users() -> None:
    sentence = obstacle(REFUSED, read(unprivileged_userns_clone="0"), is_root=True)
    assert sentence == (
        "root lacks CAP_NET_ADMIN or CAP_SYS_ADMIN here and needs user namespaces instead, and "
        "/proc/sys/kernel/unprivileged_userns_clone is 0; write 1 to it, or give it both, a container by --privileged"
    )


def test_a_kernel_without_user_namespaces_is_said_to_have_none() -> None:
    assert "this kernel has none; use one that is built with CONFIG_USER_NS" in obstacle(
        OSError(errno.EINVAL, "unshare: Invalid argument"), {}.get
    )
