"""The moments at which Ctrl-C takes effect."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from trials.signals import ctrl_c_is_ignored, ctrl_c_waits


def press(times: int, reached: list[str]) -> None:
    """A block in which Ctrl-C is pressed; note whether its end is reached."""
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
