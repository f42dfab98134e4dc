"""What an optimizer asks of all gradients together: clipping by their common norm, and loss scaling.

A shard is updated where it lives, so what needs all of them is worked out once: every update that counts gives its
square sum, or whether it is finite, these few scalars meet on the first replica's device, and one factor and one
permission go back to all. The numbers are those of one process, since what is summed are the mean gradients.
"""

from collections.abc import Sequence
from typing import Any, final

from autosync.engine.capture.optimizer import NO_RULE, GradientRule
from autosync.engine.state import AS_IT_IS, Correction
from autosync.engine.step.replica import Replica
from autosync.engine.sync.update import Update


@final
class RuleState:
    """A rule at work. Its own state, the loss scale and the count of good steps, is on the first replica's device."""

    def __init__(self, rule: GradientRule, replicas: Sequence[Replica]) -> None:
        import tensorflow as tf

        self.rule = rule
        self._replicas = replicas
        self._device = replicas[0].device
        self.state: list[Any] = []
        if rule.growth_steps is not None:
            with tf.device(self._device):
                self.state = [tf.Variable(tf.constant(0, tf.int32), trainable=False)]

    def correction(self, updates: Sequence[Update]) -> Correction:
        """What the updates of this step ask for; called while a step is traced. Moves the loss scale on."""
        import tensorflow as tf

        rule = self.rule
        if rule == NO_RULE:
            return AS_IT_IS
        counted = [each for each in updates if each.counts]
        factor, allowed, growth = tf.constant(1.0), None, None
        with tf.device(self._device):
            if rule.loss_scale is not None:
                scale = self._scale.read_value()
                factor = 1.0 / scale
        if rule.growth_steps is not None:
            finite = [_is_finite(each) for each in counted]
            with tf.device(self._device):
                allowed = tf.reduce_all(tf.stack(finite))
            growth = self._move_scale(allowed, scale)
        if rule.clip_norm is not None:
            norm = tf.sqrt(square_norm(counted, self._device, factor))
            with tf.device(self._device):
                # An infinite or undefined norm makes every gradient undefined, as in one process.
                factor *= rule.clip_norm * tf.minimum(1.0 / norm, 1.0 / rule.clip_norm) + (norm - norm)
        return Correction(factor, allowed, growth)

    @property
    def _scale(self) -> Any:
        return self._replicas[0].state[-1]

    def _move_scale(self, allowed: Any, scale: Any) -> Any:
        """Move the loss scale on. The factor, a power of two, from this step's scale to the next one's."""
        import tensorflow as tf

        with tf.device(self._device):
            good_steps = self.state[0].read_value()
            grown = tf.equal(good_steps, (self.rule.growth_steps or 0) - 1)
            factor = tf.where(allowed, tf.where(grown, 2.0, 1.0), 0.5)
            self.state[0].assign(tf.where(tf.logical_and(allowed, tf.logical_not(grown)), good_steps + 1, 0))
            next_scale = scale * factor
        for replica in self._replicas:
            with tf.device(replica.device):
                replica.state[-1].assign(next_scale)
        return factor


def square_norm(updates: Sequence[Update], device: str, factor: Any = 1.0) -> Any:
    """The squared norm, on `device`, of all mean gradients of `updates` together, each times `factor`; float32."""
    import tensorflow as tf

    square_sums = [_square_sum(each, factor) for each in updates if each.counts]
    with tf.device(device):
        return tf.add_n(square_sums)


def _is_finite(update: Update) -> Any:
    import tensorflow as tf

    with tf.device(update.held.device):
        return tf.reduce_all(tf.math.is_finite(update.values))


def _square_sum(update: Update, factor: Any) -> Any:
    """The sum of squares of the gradient times `factor`, in float32."""
    import tensorflow as tf

    with tf.device(update.held.device):
        return tf.reduce_sum(tf.square(tf.cast(update.values, tf.float32) * factor))
