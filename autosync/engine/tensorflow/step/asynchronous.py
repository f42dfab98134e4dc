"""Asynchronous steps: every replica has its own function, which its own thread calls.

A replica pulls the present values, computes, and writes its gradients to a buffer. Another function applies the
gradients in the buffers. A barrier decides which replica may begin a pass, and when the gradients are applied.
"""

from __future__ import annotations

import threading

from autosync.engine.core.barrier import FirstArrivals, StaleClock
from autosync.engine.core.contract import Pause
from autosync.engine.tensorflow.step.placed_model import Placed
from autosync.engine.tensorflow.step.placed_step import PlacedStep
from autosync.engine.tensorflow.step.replica import CompiledModel
from autosync.errors import SpecError


class AsynchronousStep(PlacedStep):
    """The base of steps whose replicas have threads. A `barrier` admits replicas to passes."""

    def __init__(
        self, model: CompiledModel, placed: Placed, barrier: StaleClock | FirstArrivals, pause: Pause | None
    ) -> None:
        """Prepare the threads without starting them. Raises `SpecError` for loss scaling."""
        if model.captured.gradient_rule.loss_scale is not None:
            raise SpecError(
                "Loss scaling needs steps that wait for all replicas, because every step may change the scale; train "
                "without loss scaling, or without staleness and a cut-off."
            )
        super().__init__(model, placed)
        self._barrier = barrier
        self._pause = pause
        self._threads = [
            threading.Thread(target=self._run, args=(replica,), daemon=True) for replica in range(len(placed.replicas))
        ]

    def close(self) -> None:
        """End the replicas' threads, after the passes that are running, unless one of them has failed."""
        self._barrier.close()
        for thread in self._threads:
            thread.join()

    def _start(self) -> None:
        """Start the replicas' threads. Call this once all functions exist."""
        self.placed.wait()
        for thread in self._threads:
            thread.start()

    def _run(self, replica: int) -> None:
        """Run passes in a replica's thread until the barrier ends or a pass fails."""
        try:
            while (step := self._barrier.begin(replica)) is not None:
                if self._pause:
                    self._pause(replica, step)
                self._pass(replica, step)
        except BaseException as error:
            self._barrier.fail(error)  # the thread that waits for a step raises it again

    def _pass(self, replica: int, step: int) -> None:
        """Run the pass of `replica` in `step`, and report its end to the barrier."""
        raise NotImplementedError
