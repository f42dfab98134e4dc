"""One worker of `tf.distribute.MultiWorkerMirroredStrategy` with a custom training loop, and its all-reduce alone.

`TF_CONFIG` names all workers. Collectives are RING, the only implementation for CPUs. As in TensorFlow's guide, Keras'
optimizer sums the gradients in `apply`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import tensorflow as tf

from studies.by_hand.peers.answering import Question, answer, time_steps, written_bytes
from studies.by_hand.peers.tasks import task_of


@final
class MirroredWorker:
    """A worker with a model under the strategy, and the same model outside it to time the compute alone."""

    def __init__(self) -> None:
        self._strategy: Any = None
        self._steps: dict[bool, Callable[[], float]] = {}

    def start(self, _: Question) -> None:
        implementation = tf.distribute.experimental.CommunicationImplementation.RING
        options = tf.distribute.experimental.CommunicationOptions(implementation=implementation)
        self._strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)

    def load(self, question: Question) -> dict[str, Any]:
        """Build both models; return the number of elements of each variable."""
        with self._strategy.scope():
            mirrored = task_of(question["task"])
            under = self._step(mirrored, self._strategy.num_replicas_in_sync, self._strategy.run)
        self._steps = {
            False: under,
            True: self._step(task_of(question["task"]), 1, lambda replica: replica()),
        }
        return {"elements": [int(tf.size(variable)) for variable in mirrored.model.trainable_variables]}

    def run(self, question: Question) -> dict[str, Any]:
        """Time steps, `alone` or under the strategy."""
        return time_steps(self._steps[question["alone"]], question)

    def reduce(self, question: Question) -> dict[str, Any]:
        """Time all-reduces of `bytes` of float32."""

        def replica() -> Any:
            context = tf.distribute.get_replica_context()
            return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.zeros([question["bytes"] // 4]))[0]

        function = tf.function(lambda: self._strategy.run(replica))
        return time_steps(lambda: float(function()), question)

    def _step(self, task: Any, replicas: int, run: Callable[[Any], Any]) -> Callable[[], float]:
        numbers = tf.random.Generator.from_seed(self._strategy.cluster_resolver.task_id)
        variables = task.model.trainable_variables
        task.optimizer.build(variables)

        def replica() -> Any:
            inputs, targets = task.batch(numbers.uniform((2,), maxval=1 << 30, dtype=tf.int32))
            with tf.GradientTape() as tape:
                loss = task.loss(targets, task.model(inputs, training=True))
                share = loss / replicas
            task.optimizer.apply(tape.gradient(share, variables), variables)
            return loss

        function = tf.function(lambda: run(replica))
        return lambda: float(function())


def main() -> None:
    member = MirroredWorker()
    answer(
        {
            "start": member.start,
            "load": member.load,
            "run": member.run,
            "reduce": member.reduce,
            "memory": lambda _: written_bytes(),
        }
    )


if __name__ == "__main__":
    main()
