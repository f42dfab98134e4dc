"""Hooks of all tests: splitting the CPU into devices once a process, which run side by side, and for how long."""

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
"""The number of devices of the largest cluster that any test plays in one process."""

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
        "tune/test_searcher",
        "tune/test_surroundings",
        "tune/test_whole_job",
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
"""Folders and files by what they start, and then look for on the whole machine: each kind runs in one process.

Both take about as long as all other tests together, so they are begun first, and with them the longest file.
"""


BEGIN_WITHIN = "--begin-within"

BEGAN = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    """For CI, which has an hour at most and whose machine is at times half as fast."""
    what = "skip what has not begun by then, and take files in random order"
    parser.addoption(BEGIN_WITHIN, type=float, metavar="SECONDS", help=what)


@pytest.hookimpl(tryfirst=True)  # before any fixture is made
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what begins too late; the summary says how many those are."""
    seconds = item.config.getoption(BEGIN_WITHIN)
    if seconds is not None and time.monotonic() - BEGAN > seconds:
        pytest.skip(f"{BEGIN_WITHIN} {seconds:g}: no time was left")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several processes (`pytest -n 3`) a file's tests stay together, and so do all those of `TOGETHER`."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0].removeprefix("tests/")
            return next((kind for kind, files in TOGETHER.items() if file.startswith(files)), file)

        def _assign_work_unit(self, node: Any) -> None:
            if config.getoption(BEGIN_WITHIN) is not None:  # else the same tests would be skipped every time
                self.workqueue.move_to_end(random.choice(list(self.workqueue)), last=False)
            for kind in TOGETHER:
                if kind in self.workqueue:
                    self.workqueue.move_to_end(kind, last=False)
            super()._assign_work_unit(node)

    return Together(config, log)


@pytest.fixture(scope="session")
def empty_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """An empty folder at every call: that of before while nothing was left there, since making one takes time."""
    made = [tmp_path_factory.mktemp("empty")]

    def empty() -> Path:
        if not made[-1].is_dir() or any(made[-1].iterdir()):
            made.append(tmp_path_factory.mktemp("empty"))
        return made[-1]

    return empty


@pytest.fixture(scope="session", autouse=True)
def away_from_the_checkout(empty_folder: Callable[[], Path]) -> Iterator[None]:
    """An empty folder for what fixtures of a module do, too: a checkout may hold its user's `data` and `runs`."""
    started_in = Path.cwd()
    os.environ.pop("COLUMNS", None)  # pytest-xdist's processes have it, and then sentences would be wrapped in pipes
    os.chdir(empty_folder())
    yield
    os.chdir(started_in)


@pytest.fixture(autouse=True)
def own_working_directory(empty_folder: Callable[[], Path]) -> None:
    """Every test begins in an empty folder, so none depends on where it was started or on what others left."""
    os.chdir(empty_folder())


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what `-m` does not ask for
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `thorough` all cases of a `quick` parametrized test but those that the mark names."""
    for item in items:
        for mark in item.iter_markers("quick"):
            case = item.name.partition("[")[2].removesuffix("]")
            if not any(fnmatchcase(case, pattern) for pattern in mark.args):
                item.add_marker(pytest.mark.thorough)


def pytest_configure() -> None:
    """A shell that starts tests in the background has Ctrl-C ignored, which the programs under test would inherit.

    And every Ray that a test starts is set as a search's own: else its workers give way to all other tests.
    """
    for name, value in RAY_SETTINGS.items():
        os.environ.setdefault(name, value)
    # What tests start finds this project and the tests' own models from any folder.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Runs of pure tests never import TensorFlow here; modules that need it have done so by now."""
    if "tensorflow" in sys.modules:
        from autosync.engine.servers import use_logical_devices

        use_logical_devices(LOGICAL_DEVICES)
