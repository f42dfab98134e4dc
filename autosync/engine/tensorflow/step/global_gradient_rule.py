"""The rule of an optimizer over all gradients together: clipping by their common norm, and loss scaling.

Each shard is updated on its own device, so a rule over all gradients is evaluated once. Every update that counts sends
its sum of squares, or whether it is finite, to the first replica's device, and that device returns one factor and one
permission to all. The numbers equal those of one process, because the rule uses the mean gradients.
"""

from collections.abc import Sequence
from typing import Any, final

import tensorflow as tf

from autosync.engine.tensorflow.capture.optimizer import NO_RULE, GradientRule
from autosync.engine.tensorflow.state import AS_IT_IS, Correction
from autosync.engine.tensorflow.step.replica import Replica
from autosync.engine.tensorflow.sync.update import Update


@final
class RuleState:
    """A rule and its state: the count of good steps on the first replica's device, the loss scale on all."""

    def __init__(self, rule: GradientRule, replicas: Sequence[Replica]) -> None:
        self.rule = rule
        self._replicas = replicas
        self._device = replicas[0].device
        self.state: list[Any] = []
        if rule.growth_steps is not None:
            with tf.device(self._device):
                self.state = [tf.Variable(tf.constant(0, tf.int32), trainable=False)]

    def correction(self, updates: Sequence[Update]) -> Correction:
        """While a step is traced, return the correction for its updates, and update the loss scale."""
        rule = self.rule
        if rule == NO_RULE:
            return AS_IT_IS
        counted = [update for update in updates if update.counts]
        factor, allowed, growth = tf.constant(1.0), None, None
        with tf.device(self._device):
            if rule.loss_scale is not None:
                scale = self._scale.read_value()
                factor = 1.0 / scale
        if rule.growth_steps is not None:
            finite = [_is_finite(update) for update in counted]
            with tf.device(self._device):
                allowed = tf.reduce_all(tf.stack(finite))
            growth = self._move_scale(allowed, scale)
        if rule.clip_norm is not None:
            norm = tf.sqrt(square_norm(counted, self._device, factor))
            with tf.device(self._device):
                # An infinite or undefined norm makes every gradient NaN, as in one process: `norm - norm` adds NaN.
                factor *= rule.clip_norm * tf.minimum(1.0 / norm, 1.0 / rule.clip_norm) + (norm - norm)
        return Correction(factor, allowed, growth)

    @property
    def _scale(self) -> Any:
        return self._replicas[0].state[-1]

    def _move_scale(self, allowed: Any, scale: tf.Tensor) -> Any:
        """Update the loss scale; return the factor, a power of two, from this step's scale to the next step's."""
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


def square_norm(updates: Sequence[Update], device: str, factor: tf.Tensor | float = 1.0) -> Any:
    """Return the squared norm, float32 on `device`, of all mean gradients of `updates` together, times `factor`."""
    square_sums = [_square_sum(update, factor) for update in updates if update.counts]
    with tf.device(device):
        return tf.add_n(square_sums)


def _is_finite(update: Update) -> Any:
    with tf.device(update.held.device):
        return tf.reduce_all(tf.math.is_finite(update.values))


def _square_sum(update: Update, factor: tf.Tensor) -> Any:
    """Return the sum of squares of the gradient times `factor`, in float32."""
    with tf.device(update.held.device):
        return tf.reduce_sum(tf.square(tf.cast(update.values, tf.float32) * factor))
