"""Hooks of all tests: split the CPU into devices once a process, choose the tests that share a process, limit the
time.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.tables import pytest_terminal_summary
from trials.cluster.ray_labels import RAY_SETTINGS

__all__ = ["pytest_terminal_summary"]
"""It is here, since the process that prints reads this file only when others run the tests."""

ROOT = Path(__file__).parent.parent

LOGICAL_DEVICES = 8
"""The number of devices of the largest cluster that any test simulates in one process."""

TOGETHER = {
    "local Ray": (
        "contracts/test_backend_contract",
        "dataset/test_ray_data",
        "dataset/test_streaming",
        "studies/evaluation/test_sources",
        "train/test_on_ray",
        "tune/test_beside_trials",
        "tune/test_faults",
        "tune/test_metrics",
        "tune/test_pytorch_job",
        "tune/test_searcher",
        "tune/test_surroundings",
        "tune/test_whole_job",
        "without_tensorflow/test_search",
    ),
    "own hosts": (
        "commands/test_trial",
        "contracts/test_traffic",
        "ray_up",
        "studies/collect",
        "trials",
        "tune/test_emulated",
    ),
    "families of models": ("engine/test_model_families",),
}
"""Folders and files by the processes they start and look for on the whole machine; each kind runs in one process.

Both take about as long as all other tests together, so they start first, and with them the longest file.
"""


BEGIN_WITHIN = "--begin-within"

BEGAN = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add a limit for CI, which has an hour at most and whose machine is at times half as fast."""
    what = "skip what has not begun by then, and take files in random order"
    parser.addoption(BEGIN_WITHIN, type=float, metavar="SECONDS", help=what)


@pytest.hookimpl(tryfirst=True)  # before any fixture is made
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that would start too late; the summary counts them."""
    seconds = item.config.getoption(BEGIN_WITHIN)
    if seconds is not None and time.monotonic() - BEGAN > seconds:
        pytest.skip(f"{BEGIN_WITHIN} {seconds:g}: no time was left")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several processes (`pytest -n 3`), keep a file's tests together, and all tests of a `TOGETHER` kind."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0].removeprefix("tests/")
            return next((kind for kind, files in TOGETHER.items() if file.startswith(files)), file)

        def _assign_work_unit(self, node: Any) -> None:
            if config.getoption(BEGIN_WITHIN) is not None:  # otherwise the same tests would be skipped every time
                self.workqueue.move_to_end(random.choice(list(self.workqueue)), last=False)
            for kind in TOGETHER:
                if kind in self.workqueue:
                    self.workqueue.move_to_end(kind, last=False)
            super()._assign_work_unit(node)

    return Together(config, log)


@pytest.fixture(scope="session")
def empty_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Return an empty folder: the previous one if it is still empty, because making a folder takes time."""
    made = [tmp_path_factory.mktemp("empty")]

    def empty() -> Path:
        if not made[-1].is_dir() or any(made[-1].iterdir()):
            made.append(tmp_path_factory.mktemp("empty"))
        return made[-1]

    return empty


@pytest.fixture(scope="session", autouse=True)
def away_from_the_checkout(empty_folder: Callable[[], Path]) -> Iterator[None]:
    """An empty folder for fixtures of a module too, because a checkout may hold its user's `data` and `runs`."""
    started_in = Path.cwd()
    os.environ.pop("COLUMNS", None)  # pytest-xdist's processes have it, and then sentences would be wrapped in pipes
    os.chdir(empty_folder())
    yield
    os.chdir(started_in)


@pytest.fixture(autouse=True)
def own_working_directory(empty_folder: Callable[[], Path]) -> None:
    """Start every test in an empty folder, so that no test depends on the starting folder or on files of other
    tests.
    """
    os.chdir(empty_folder())


@pytest.hookimpl(tryfirst=True)  # before pytest deselects tests by `-m`
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `thorough` all cases of a `quick` parametrized test except those that the mark names."""
    for item in items:
        for mark in item.iter_markers("quick"):
            case = item.name.partition("[")[2].removesuffix("]")
            if not any(fnmatchcase(case, pattern) for pattern in mark.args):
                item.add_marker(pytest.mark.thorough)


def pytest_configure() -> None:
    """Restore Ctrl-C, which a shell that starts tests in the background ignores, and which programs under test would
    inherit.

    Configure every Ray that a test starts like a search's, because its workers would otherwise yield to all other
    tests.
    """
    for name, value in RAY_SETTINGS.items():
        os.environ.setdefault(name, value)
    # Processes started by tests find this project and the tests' models from any folder.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Without TensorFlow tests, never import TensorFlow; modules that need it have imported it by now."""
    if "tensorflow" in sys.modules:
        from autosync.engine.tensorflow.servers import use_logical_devices

        use_logical_devices(LOGICAL_DEVICES)
