"""The moments at which Ctrl-C takes effect."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from tests.architecture.source_tree import ROOT
from trials.signals import ctrl_c_is_ignored, ctrl_c_waits, handlers_stay, requests_end_as_ctrl_c


def press(times: int, reached: list[str]) -> None:
    """A block in which Ctrl-C is pressed; notes whether its end is reached."""
    with ctrl_c_waits():
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        reached.append("the end of the block")


def test_ctrl_c_takes_effect_at_the_end_of_the_block() -> None:
    reached: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        press(1, reached)
    assert reached == ["the end of the block"]


def test_a_second_ctrl_c_takes_effect_at_once() -> None:
    reached: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        press(2, reached)
    assert reached == []


def test_a_block_without_ctrl_c_runs_on_and_the_handler_is_put_back_whatever_happens() -> None:
    before, reached = signal.getsignal(signal.SIGINT), list[str]()
    press(0, reached)
    assert reached == ["the end of the block"]
    with pytest.raises(ValueError, match="of the block"), ctrl_c_waits():
        raise ValueError("of the block")
    assert signal.getsignal(signal.SIGINT) is before


def test_another_thread_than_the_main_one_runs_the_block_as_it_is() -> None:
    reached = []

    def block() -> None:
        with ctrl_c_waits(), ctrl_c_is_ignored():
            reached.append("the end of the block")

    thread = threading.Thread(target=block)
    thread.start()
    thread.join()
    assert reached == ["the end of the block"]


def test_an_ignored_ctrl_c_does_nothing_here_nor_ever_in_processes_started_then() -> None:
    before = signal.getsignal(signal.SIGINT)
    code = "import signal, sys; print('started', flush=True); sys.stdin.read(); signal.raise_signal(signal.SIGINT)"
    with ctrl_c_is_ignored():
        signal.raise_signal(signal.SIGINT)
        started = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert signal.getsignal(signal.SIGINT) is before
    assert started.stdout is not None
    assert started.stdout.readline() == b"started\n"
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=60)
    assert started.returncode == 0


REQUESTS = (signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize("number", REQUESTS)
def test_a_request_to_end_does_as_ctrl_c_does_and_has_its_own_exit_status(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with requests_end_as_ctrl_c() as ending:
        assert ending.status(130, 130) == 130
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        assert ending.status(130, 130) == 128 + number
        assert ending.status(1, 130) == 1
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", REQUESTS)
def test_a_request_to_end_waits_where_ctrl_c_waits_and_later_ones_cut_nothing_off(number: signal.Signals) -> None:
    reached: list[str] = []

    def block() -> None:
        with ctrl_c_waits():
            for repeated in (number, *REQUESTS):
                signal.raise_signal(repeated)
            reached.append("the end of the block")

    with requests_end_as_ctrl_c():
        with pytest.raises(KeyboardInterrupt):
            block()
        signal.raise_signal(signal.SIGTERM)
    assert reached == ["the end of the block"]


@pytest.mark.parametrize("number", REQUESTS)
def test_a_request_to_end_waits_while_ctrl_c_is_ignored(number: signal.Signals) -> None:
    reached: list[str] = []

    def block() -> None:
        with ctrl_c_is_ignored():
            signal.raise_signal(number)
            reached.append("the end of the block")

    with requests_end_as_ctrl_c(), pytest.raises(KeyboardInterrupt):
        block()
    assert reached == ["the end of the block"]


@pytest.mark.parametrize("number", REQUESTS)
def test_a_request_to_end_acts_where_a_script_starts_the_command_in_the_background(number: signal.Signals) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell without job control does for `command &`
    reached: list[str] = []

    def block() -> None:
        with ctrl_c_waits():
            signal.raise_signal(number)
            reached.append("the end of the block")

    try:
        with requests_end_as_ctrl_c(), pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        with requests_end_as_ctrl_c(), pytest.raises(KeyboardInterrupt):
            block()
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert reached == ["the end of the block"]


def test_a_closed_terminal_is_ignored_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with requests_end_as_ctrl_c() as ending:
            signal.raise_signal(signal.SIGHUP)
        assert ending.number == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_that_ray_replaces_are_put_back() -> None:
    with requests_end_as_ctrl_c() as ending:
        with handlers_stay():
            signal.signal(signal.SIGTERM, lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert ending.number == signal.SIGTERM


def test_a_request_to_end_that_arrives_while_a_process_starts_acts_after_the_start() -> None:
    code = (
        "import os, signal, subprocess, time\n"
        "from trials.signals import ending_unwinds\n"
        "os.register_at_fork(after_in_parent=lambda: signal.raise_signal(signal.SIGTERM))\n"
        "with ending_unwinds():\n"
        "    subprocess.run(['true'], preexec_fn=lambda: print('started', flush=True))\n"
        "    time.sleep(60)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("started\n", "", 128 + signal.SIGTERM)


def test_the_end_of_a_command_is_reached_where_its_terminal_is_gone() -> None:
    code = (
        "import os, signal\n"
        "from trials.signals import requests_end_as_ctrl_c\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # under nohup, tests ignore the signal
        "with requests_end_as_ctrl_c() as ending:\n"
        "    try:\n"
        "        os.write(3, b'started')\n"
        "        signal.pause()\n"
        "    except KeyboardInterrupt:\n"
        "        print('to a terminal that is gone', flush=True)\n"
        "        os.write(3, b' ended')\n"
        "os._exit(ending.status(130, 130))\n"
    )
    reader, writer = os.pipe()
    terminal, end = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", f"import os; os.dup2({writer}, 3)\n{code}"],
        stdin=end, stdout=end, stderr=end, start_new_session=True, pass_fds=[writer], cwd=ROOT,
    ) as started:  # fmt: skip
        os.close(end)
        os.close(writer)
        told = os.read(reader, 100)
        os.close(terminal)
        os.kill(started.pid, signal.SIGHUP)  # the kernel sends the signal only to processes that the terminal controls
        told += os.read(reader, 100)
    os.close(reader)
    assert (told, started.returncode) == (b"started ended", 129)
