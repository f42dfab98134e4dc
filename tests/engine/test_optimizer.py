"""Optimizers that can update single shards, and the errors for other optimizers."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.tensorflow.capture.optimizer import capture_optimizer
from autosync.engine.tensorflow.capture.update_rules import capture_optimizers
from autosync.engine.tensorflow.state import cut_segments
from autosync.errors import ModelError

o = keras.optimizers


ACCEPTED = {  # optimizer -> (slots, whether a zero gradient changes nothing)
    "SGD": (lambda: o.SGD(), 0, True),
    "SGD with weight decay": (lambda: o.SGD(weight_decay=0.1), 0, False),
    "SGD with clipped values": (lambda: o.SGD(clipvalue=0.5), 0, True),
    "SGD on a schedule": (lambda: o.SGD(o.schedules.CosineDecay(0.1, 100)), 0, True),
    "momentum": (lambda: o.SGD(momentum=0.9), 1, False),
    "Nesterov": (lambda: o.SGD(momentum=0.9, nesterov=True), 1, False),
    "Adagrad": (lambda: o.Adagrad(), 1, True),
    "RMSprop": (lambda: o.RMSprop(centered=True, momentum=0.9), 3, False),
    "Adadelta": (lambda: o.Adadelta(), 2, False),
    "Adam": (lambda: o.Adam(), 2, False),
    "AMSGrad": (lambda: o.Adam(amsgrad=True), 3, False),
    "AdamW": (lambda: o.AdamW(), 2, False),
    "Adamax": (lambda: o.Adamax(), 2, False),
    "Nadam": (lambda: o.Nadam(), 2, False),
    "Ftrl": (lambda: o.Ftrl(), 2, False),
    "Lion": (lambda: o.Lion(), 1, False),
}


def _updated_piece(make, dtype):
    """The elements from the seventh on after three updates: by Keras on the whole, and by the captured flat update."""
    captured = capture_optimizer(make(), dtype)
    generator = np.random.default_rng(3)
    start = generator.normal(size=(4, 5))
    whole, optimizer = keras.Variable(start, dtype=dtype), make()
    optimizer.build([whole])
    update = captured.update.callable()
    piece = tf.reshape(whole.value, [-1])[7:]
    state = [tf.cast(tf.fill([13], start), dtype) for start in captured.slot_starts]
    scalars = zip(captured.scalar_starts, captured.scalar_dtypes, strict=True)
    state += [tf.cast(start, of_scalar) for start, of_scalar in scalars]
    for _ in range(3):
        gradient = tf.cast(generator.normal(size=(4, 5)), dtype)
        optimizer.apply([gradient])
        piece, *state = update(piece, tf.reshape(gradient, [-1])[7:], *state)
    assert piece.dtype == dtype
    return np.asarray(tf.cast(tf.reshape(whole.value, [-1])[7:], "float64")), np.asarray(tf.cast(piece, "float64"))


@pytest.mark.quick("SGD", "SGD on a schedule", "momentum", "Adagrad", "Adam", "AdamW", "Lion")
@pytest.mark.parametrize("name", ACCEPTED)
def test_an_elementwise_optimizer_updates_a_flat_piece_as_keras_updates_the_whole(name):
    make, slots, rows_suffice = ACCEPTED[name]
    captured = capture_optimizer(make(), "float32")
    assert (len(captured.slot_starts), captured.rows_suffice) == (slots, rows_suffice)
    by_keras, by_piece = _updated_piece(make, "float32")
    np.testing.assert_allclose(by_piece, by_keras, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 2e-3), ("bfloat16", 2e-2), ("float64", 1e-12)])
def test_other_dtypes_are_updated_in_their_own_precision(dtype, tolerance):
    by_keras, by_piece = _updated_piece(lambda: o.SGD(0.1, momentum=0.9), dtype)
    np.testing.assert_allclose(by_piece, by_keras, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: o.SGD(clipnorm=1e6), r"must leave clipnorm unset, but SGD sets it: it clips a variable's gradient by"),
        (
            lambda: o.SGD(gradient_accumulation_steps=4),
            r"must leave gradient_accumulation_steps unset, but SGD sets it: it delays updates",
        ),
        (lambda: o.SGD(use_ema=True), r"must leave use_ema unset, .* which autosync does not read\."),
        (lambda: o.Lamb(), r"of an element by Lamb depends on other elements \(for example a norm\), .*; use an elem"),
        (lambda: o.Muon(), r"of an element by Muon depends on other elements"),
        (
            lambda: o.Adafactor(),
            r"state of a variable's shape, or scalars, but Adafactor keeps other state; use an element",
        ),
        (
            lambda: o.LossScaleOptimizer(o.LossScaleOptimizer(o.SGD())),
            r"LossScaleOptimizer wraps another optimizer; give the inner optimizer",
        ),
        (lambda: "adam", r"must be a Keras 3 optimizer, not str\."),
    ],
)
def test_what_no_shard_can_do_by_itself_is_refused_in_one_sentence(make, message):
    with pytest.raises(ModelError, match=message):
        capture_optimizer(make(), "float32")


def test_an_update_rule_that_cannot_be_traced_says_why():
    class Peeking(o.SGD):
        def update_step(self, gradient, variable, learning_rate):
            if float(gradient[0]) > 0:
                super().update_step(gradient, variable, learning_rate)

    with pytest.raises(ModelError, match=r"The update rule of Peeking cannot be captured: "):
        capture_optimizer(Peeking(), "float32")


class _Scaled(o.SGD):
    """An optimizer with learning-rate factors by the variable's name, which `get_config` leaves out."""

    def __init__(self, learning_rate, factors=None, **options):
        super().__init__(learning_rate, **options)
        self.factors = factors

    def update_step(self, gradient, variable, learning_rate):
        super().update_step(gradient, variable, learning_rate * self.factors.get(variable.name, 1.0))


def _scalars(captured):
    pairs = zip(captured.scalar_starts, captured.scalar_dtypes, strict=True)
    return [tf.cast(start, dtype) for start, dtype in pairs]


def _variables():
    with keras.name_scope("layer"):
        return [keras.Variable(np.ones((2, 3), "float32"), name=name) for name in ("kernel", "bias", "gamma")]


def test_variables_that_an_optimizer_treats_alike_have_one_rule_and_others_their_own():
    adam = o.AdamW(global_clipnorm=1.0)
    adam.exclude_from_weight_decay(var_names=["bias", "gamma"])
    captured, rules = capture_optimizers(adam, _variables())
    assert (rules, len(captured["float32"].rules)) == ((0, 1, 1), 1)
    assert capture_optimizers(o.AdamW(), _variables())[1] == ()
    unused = o.Adam()
    unused.exclude_from_weight_decay(var_names=["bias"])  # there is no weight decay
    assert capture_optimizers(unused, _variables())[1] == ()


def test_a_rule_may_follow_a_variables_name_and_settings_that_its_config_lacks():
    optimizer = _Scaled(0.5, {"layer/bias:0": 10.0})
    captured, rules = capture_optimizers(optimizer, _variables())
    assert rules == (0, 1, 0)
    updates = [captured["float32"].update, *captured["float32"].rules]
    scalars = _scalars(captured["float32"])
    moved = [float(update.callable()(tf.zeros([1]), tf.ones([1]), *scalars)[0][0]) for update in updates]
    assert moved == [-0.5, -5.0]


def test_an_optimizer_that_cannot_be_made_again_from_its_config_says_so():
    class Needing(o.SGD):
        def __init__(self, factor):
            super().__init__(factor)

    with pytest.raises(ModelError, match=r"from_config\(get_config\(\)\) of Needing fails: .*; let get_config return"):
        capture_optimizer(Needing(2.0), "float32")


@pytest.mark.parametrize("name", ["apply", "apply_gradients", "scale_loss", "finalize_variable_values"])
def test_methods_that_need_all_gradients_are_refused_by_name(name):
    own, bound = type("Own", (o.SGD,), {name: lambda *_: None})(), o.SGD()
    setattr(bound, name, lambda *_: None)
    for optimizer in (own, bound, o.LossScaleOptimizer(own)):
        with pytest.raises(ModelError, match=rf"overrides {name}, which takes all .*; override update_step\("):
            capture_optimizers(optimizer, _variables())


def test_a_constraint_of_single_elements_is_part_of_the_rule_and_others_are_refused():
    free, held, normed = _variables()
    held.constraint, normed.constraint = keras.constraints.NonNeg(), keras.constraints.MaxNorm(1.0)
    captured, rules = capture_optimizers(o.SGD(0.1), [free, held])
    assert rules == (0, 1)
    update = captured["float32"].rules[0].callable()
    after = update(tf.ones([2]), tf.constant([5.0, 100.0]), *_scalars(captured["float32"]))[0]
    assert after.numpy().tolist() == [0.5, 0]
    with pytest.raises(
        ModelError, match=r"must hold element by element, as NonNeg does, but MaxNorm of .*; remove the"
    ):
        capture_optimizers(o.SGD(0.1), [free, normed])


def test_segments_are_cut_where_pieces_end():
    assert cut_segments(((0, 5), (1, 2), (0, 3)), [4, 3, 3]) == [((0, 4),), ((0, 1), (1, 2)), ((0, 3),)]
    assert cut_segments(((1, 10),), [4, 6]) == [((1, 4),), ((1, 6),)]
    assert cut_segments((), [4, 6]) == [(), ()]
