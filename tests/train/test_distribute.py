"""`distribute` refuses invalid arguments in one sentence, before or at the first step."""

from __future__ import annotations

import math
import subprocess
import sys
import zipfile
from dataclasses import replace
from typing import Any

import h5py
import keras
import numpy as np
import pytest

import autosync
from autosync.baselines import BASELINES
from autosync.errors import AutosyncError, ClusterError, ModelError, TrainingError
from autosync.spec import AllReduce, SufficientFactors, VariableStrategy
from autosync.train import Trainer
from tests.cases import local_cluster
from tests.train.models import LOSS, all_reduce, batches, classifier

EXAMPLE = next(batches((6,)))


def local(model: Any) -> Trainer:
    return autosync.distribute(model, LOSS, keras.optimizers.SGD(0.1), all_reduce(model), backend="local")


def refused(**changed: Any) -> str:
    """Return the sentence with which `distribute` refuses these arguments."""
    model = classifier()
    parts: dict[str, Any] = {
        "model": model,
        "loss": LOSS,
        "optimizer": keras.optimizers.SGD(0.1),
        "strategy": all_reduce(model),
        "backend": "local",
        "example": EXAMPLE,
    }
    with pytest.raises(AutosyncError) as error:
        autosync.distribute(**parts | changed)
    return str(error.value)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"model": 3}, "The model must be a keras.Model, since autosync trains Keras models on TensorFlow, not int."),
        ({"optimizer": 3}, "The optimizer must be a keras.optimizers.Optimizer, not int."),
        ({"optimizer": "adamant"}, "The optimizer must be one that Keras knows, such as 'adam', not 'adamant'."),
        ({"optimizer": None}, "The optimizer must be given, or the model be compiled with it, as model.compile(opt"),
        (
            {"loss": 3},
            "The loss must be a loss, that is a callable (targets, outputs) -> scalar or a Keras loss's n",
        ),
        ({"loss": "wrong"}, "'classifier' names the loss 'wrong', which Keras does not know."),
        ({"example": (EXAMPLE[0],)}, "A batch must be a pair (inputs, targets), perhaps"),
        ({"backend": "gpu"}, "backend must be 'ray' or 'local', not 'gpu'."),
        ({"strategy": "byteqs"}, "'byteqs' is neither a strategy file nor a baseline; the baselines are par"),
        ({"workers": 2}, "A strategy runs on the devices it names, but the cluster has no node0/cpu:2;"),
        ({"cluster": local_cluster(2)}, "A strategy runs on the devices it names, but the cluster has no node0/cpu:2;"),
        ({"workers": 9}, "call autosync.train.use_logical_devices(9) before the model is built."),
    ],
)
def test_parts_that_do_not_go_together_are_refused(changed: dict[str, Any], sentence: str) -> None:
    assert sentence in refused(**changed)


def test_a_baseline_is_named_in_place_of_a_strategy() -> None:
    def parts() -> tuple[Any, ...]:
        return classifier(), LOSS, keras.optimizers.SGD(0.1)

    with autosync.distribute(*parts(), "all_reduce_25mb", backend="local", workers=3) as trainer:
        with pytest.raises(TrainingError, match="is known once the model is captured"):
            _ = trainer.strategy
        history = trainer.fit(batches((6, 6)))
        named = trainer.strategy
        assert trainer.spec is not None
        assert named == BASELINES["all_reduce_25mb"](trainer.spec, trainer.cluster)
    with autosync.distribute(*parts(), named, backend="local") as trainer:
        assert trainer.fit(batches((6, 6))).loss == history.loss


def test_a_loss_that_is_no_mean_over_examples_is_refused() -> None:
    summed = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
    assert "must be a mean over examples, but on the example batch it is" in refused(loss=summed)


def pairs(batch_size: int | None) -> Any:
    """Scores of each example's left side with the right side of every example of the batch."""
    left, right = (keras.Input((4,), batch_size, name=name) for name in ("left", "right"))
    turned = keras.ops.transpose(keras.layers.Dense(3, name="right_tower")(right))
    return keras.Model([left, right], keras.layers.Dense(3, name="left_tower")(left) @ turned, name="pairs")


def of_pairs(examples: int) -> tuple[Any, Any]:
    draw = np.random.default_rng(0)
    return [draw.normal(size=(examples, 4)), draw.normal(size=(examples, 4))], np.arange(examples)


def test_outputs_that_depend_on_which_others_are_in_the_batch_are_refused() -> None:
    model = pairs(None)
    sentence = refused(model=model, strategy=all_reduce(model), example=of_pairs(8))
    assert (
        "but 'pairs' has outputs of shape (8, 8) for 8 examples and (3, 3) for 3; give its inputs a batch" in sentence
    )


def test_with_a_batch_size_every_replica_compares_its_own_examples() -> None:
    model = pairs(4)
    inputs, targets = of_pairs(12)
    expected = np.mean([float(LOSS(np.arange(4), model([input_[i : i + 4] for input_ in inputs]))) for i in (0, 4, 8)])
    with autosync.distribute(
        model, LOSS, keras.optimizers.SGD(0.1), all_reduce(model), example=of_pairs(4), backend="local"
    ) as trainer:
        assert trainer.step((inputs, targets % 4)) == pytest.approx(expected, rel=1e-5)


def test_a_loss_that_fails_on_a_part_of_a_batch_is_refused() -> None:
    def of_six(targets: Any, outputs: Any) -> Any:
        return LOSS(keras.ops.reshape(targets, (6,)), outputs)

    assert "must be a mean over examples, but on a part of the example batch it fails: " in refused(loss=of_six)


def test_a_strategy_for_another_model_is_refused() -> None:
    another = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, name="other")])
    assert "A strategy belongs to one model, and this strategy is another model's" in refused(
        strategy=all_reduce(another)
    )


def test_sufficient_factors_need_a_batch_size() -> None:
    whole = all_reduce(classifier())
    shard = AllReduce(0, compressor=SufficientFactors())
    first = VariableStrategy(whole.variables[0].variable, (shard,))
    sentence = refused(strategy=replace(whole, variables=(first, *whole.variables[1:])))
    assert (
        "Sufficient factors, as for hidden/kernel, have one row an example, so the batch size must be known;"
        in sentence
    )


def test_an_optimizer_that_was_built_for_another_model_is_refused() -> None:
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build(keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)]).trainable_variables)
    assert "must be unbuilt or built for the variables of this model" in refused(optimizer=optimizer)


def test_inputs_that_fix_the_batch_size_take_that_size_only() -> None:
    inputs = keras.Input(batch_shape=(2, 6))
    model = keras.Model(inputs, keras.layers.Dense(3, name="logits")(inputs))
    optimizer = keras.optimizers.SGD(0.1)
    fixed = next(batches((2,)))
    with autosync.distribute(model, LOSS, optimizer, all_reduce(model), backend="local", example=fixed) as trainer:
        with pytest.raises(TrainingError, match=r"fix the batch size to 2 a replica, so 3 replicas take batches of 6"):
            trainer.step(next(batches((5,))))
        assert trainer.step(EXAMPLE) > 0


def test_nothing_can_be_saved_before_anything_was_trained_or_after_the_end(tmp_path: Any) -> None:
    trainer = local(classifier())
    with pytest.raises(TrainingError, match=r"Nothing has been trained yet; call step, fit, or prepare"):
        trainer.save(tmp_path / "a.keras")
    trainer.prepare(EXAMPLE)
    trainer.close()
    trainer.close()
    with pytest.raises(TrainingError, match=r"The trainer is closed; make a new one\."):
        trainer.save(tmp_path / "a.keras")


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Any) -> None:
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)]).save(tmp_path / "other.keras")
    trainer = local(classifier())
    trainer.prepare(EXAMPLE)
    with pytest.raises(ModelError, match=r"other\.keras' must be a \.keras file of this model with its optimizer"):
        trainer.restore(tmp_path / "other.keras")


@pytest.mark.parametrize("way_out", ["external data", "external link", "virtual data"])
def test_a_checkpoint_whose_arrays_are_in_other_files_is_refused(tmp_path: Any, way_out: str) -> None:
    """HDF5 can refer to any file of this machine, whose bytes would become weights."""
    elsewhere, weights, file = tmp_path / "elsewhere.h5", tmp_path / "weights.h5", tmp_path / "a.keras"
    trainer = local(classifier())
    trainer.prepare(EXAMPLE)
    trainer.save(file)
    trainer.restore(file)
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    weights.write_bytes(members["model.weights.h5"])
    with h5py.File(weights, "a") as h5, h5py.File(elsewhere, "w") as external:
        names: list[str] = []
        h5.visit(names.append)
        name = next(name for name in names if name.startswith("layers/") and name.endswith("/vars/0"))
        shape = h5[name].shape
        external["x"] = np.ones(shape, "float32")
        del h5[name]
        if way_out == "external data":
            h5.create_dataset(name, shape, "float32", external=[(str(elsewhere), 0, 4 * math.prod(shape))])
        elif way_out == "external link":
            h5[name] = h5py.ExternalLink(str(elsewhere), "/x")
        else:
            layout = h5py.VirtualLayout(shape, "float32")
            layout[:] = h5py.VirtualSource(str(elsewhere), "x", shape)
            h5.create_virtual_dataset(name, layout)
    with zipfile.ZipFile(file, "w") as archive:
        for member, content in (members | {"model.weights.h5": weights.read_bytes()}).items():
            archive.writestr(member, content)
    with pytest.raises(ModelError, match=r"a\.keras' must be a \.keras file of this model"):
        trainer.restore(file)
    assert not any((weight == 1).all() for weight in trainer.model.get_weights())


def test_a_model_that_keras_cannot_save_is_told_of_at_saving(tmp_path: Any) -> None:
    class Odd(keras.layers.Layer):
        def __init__(self, scale: Any) -> None:
            super().__init__()
            self.scale = scale

        def call(self, inputs: Any) -> Any:
            return inputs * self.scale

    inputs = keras.Input((6,))
    scaled = Odd(np.array([2.0], "float32"))(inputs)
    trainer = local(keras.Model(inputs, keras.layers.Dense(3, name="logits")(scaled)))
    trainer.prepare(EXAMPLE)
    with pytest.raises(ModelError, match=r"A model must be one that Keras can save, but Keras says: "):
        trainer.save(tmp_path / "a.keras")


def test_a_ray_cluster_that_is_not_there_is_named() -> None:
    model = classifier()
    with pytest.raises(ClusterError, match=r"No Ray cluster answers at '127\.0\.0\.1:1'"):
        autosync.distribute(model, LOSS, keras.optimizers.SGD(0.1), all_reduce(model), cluster="127.0.0.1:1")


def test_autosync_has_nothing_else_to_offer_at_its_top() -> None:
    with pytest.raises(AttributeError, match="module 'autosync' has no attribute 'nothing'"):
        _ = autosync.nothing


def test_importing_the_command_loads_no_framework() -> None:
    code = "import autosync.commands.train, sys; print({'tensorflow', 'keras', 'ray', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "set()"
