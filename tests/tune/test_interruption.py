"""When Ctrl-C takes effect."""

from __future__ import annotations

import signal
import threading

import pytest

from autosync.tune.interruption import ctrl_c_waits


def test_ctrl_c_takes_effect_at_the_end_of_the_block() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), ctrl_c_waits():
        signal.raise_signal(signal.SIGINT)
        reached.append("the end of the block")
    assert reached == ["the end of the block"]


def test_a_second_ctrl_c_takes_effect_at_once() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), ctrl_c_waits():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        reached.append("the end of the block")
    assert reached == []


def test_an_error_of_the_block_is_raised_as_it_is_and_the_handler_is_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="of the block"), ctrl_c_waits():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("of the block")
    assert signal.getsignal(signal.SIGINT) is before


def test_another_thread_than_the_main_one_runs_the_block_as_it_is() -> None:
    reached = []

    def block() -> None:
        with ctrl_c_waits():
            reached.append("the end of the block")

    thread = threading.Thread(target=block)
    thread.start()
    thread.join()
    assert reached == ["the end of the block"]
