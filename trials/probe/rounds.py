"""Running a round: timed work side by side, each within the time an answer may take."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

from autosync.errors import ClusterError

__all__ = ["run_round"]

Found = TypeVar("Found")


def run_round(work: Mapping[str, Callable[[], Found]], answer_seconds: float) -> dict[str, Found]:
    """What each piece of `work` finds, by its name, each in a thread of its own.

    Raises `ClusterError` with the name of the one that could not reach a worker or has no answer after
    `answer_seconds`. A thread that hangs is left behind, since TensorFlow offers no way to end its call; end the
    process.
    """
    answers: queue.SimpleQueue[tuple[str, Found | BaseException]] = queue.SimpleQueue()

    def answer(name: str, find: Callable[[], Found]) -> None:
        try:
            answers.put((name, find()))
        except BaseException as error:  # handed to the waiting thread, which raises it
            answers.put((name, error))

    for name, find in work.items():
        threading.Thread(target=answer, args=(name, find), name=f"probe {name}", daemon=True).start()
    found: dict[str, Found] = {}
    while len(found) < len(work):
        try:
            name, answered = answers.get(timeout=answer_seconds)
        except queue.Empty:
            silent = next(name for name in work if name not in found)
            raise ClusterError(
                f"Probing {silent} got no answer within {answer_seconds:g} s; see that these nodes live and reach each "
                "other, then probe again."
            ) from None
        if isinstance(answered, ClusterError):
            raise ClusterError(f"Probing {name} failed: {answered}") from answered
        if isinstance(answered, BaseException):
            raise answered
        found[name] = answered
    return found
