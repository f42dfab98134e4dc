"""The model zoo: every CPU-sized model trains, is built twice identically, and has the intended gradients."""

from __future__ import annotations

import random
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from autosync.errors import ModelError
from autosync.zoo import MODELS, build_task, default_space, resolve_name
from autosync.zoo.characters import MOST_CHARACTERS, library_text
from autosync.zoo.digits import build as build_digits
from autosync.zoo.losses import gradients
from autosync.zoo.teacher import LEAST_LOSS

LEARNABLE = ("characters", "digits", "digits-by-label", "quadratic", "teacher")
SMALL = sorted(name for name in MODELS if name.endswith("-mini") or name in ("mlp", *LEARNABLE))
SPARSE = {
    "bert-classifier-mini": {"token_embedding/embeddings"},
    "characters": {"token_embedding/embeddings"},
    "ncf-mini": {
        "mf_item_embedding/embeddings",
        "mf_user_embedding/embeddings",
        "mlp_item_embedding/embeddings",
        "mlp_user_embedding/embeddings",
    },
    "transformer-lm-mini": {"token_embedding/embeddings"},
}

SEEDS = pytest.mark.parametrize(
    "seed", [lambda: tf.constant([1, 1]), lambda: np.random.SeedSequence(1)], ids=["graph", "numpy"]
)
"""Seeds for draws inside a graph, and for draws without TensorFlow."""


def test_the_index_of_models_is_read_without_tensorflow_or_keras():
    program = (
        "import sys, autosync.zoo as zoo; zoo.resolve_name('bert', 0); zoo.default_space('mlp');"
        "print(len(zoo.MODELS), sorted({'tensorflow', 'keras', 'keras_hub', 'numpy'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == f"{len(MODELS)} []"


@pytest.mark.quick("ncf-mini", "resnet-mini")
@pytest.mark.parametrize("name", SMALL)
def test_a_small_model_is_built_bit_identical_twice_under_the_same_names(name):
    first, second = build_task(name).model, build_task(name).model
    assert [variable.path for variable in first.variables] == [variable.path for variable in second.variables]
    assert len({variable.path for variable in first.variables}) == len(first.variables)
    for left, right in zip(first.variables, second.variables, strict=True):
        assert left.numpy().tobytes() == right.numpy().tobytes(), left.path


@pytest.mark.thorough
def test_layers_that_keras_numbers_itself_keep_their_names_in_a_second_build():
    first, second = build_task("inceptionv3").model, build_task("inceptionv3").model
    assert [variable.path for variable in first.variables] == [variable.path for variable in second.variables]


def test_building_leaves_pythons_random_generator_where_it_was():
    before = random.getstate()
    build_task("mlp")
    assert random.getstate() == before


@pytest.mark.quick("ncf-mini", "resnet-mini")
@pytest.mark.parametrize("name", SMALL)
def test_a_small_model_has_a_gradient_for_every_variable_sparse_where_it_looks_up_and_stays_finite(name):
    task = build_task(name)
    variables = task.model.trainable_variables
    task.optimizer.build(variables)
    sparse: set[str] = set()

    @tf.function
    def step(seed):
        loss, computed = gradients(task, seed)
        assert all(gradient is not None for gradient in computed)
        sparse.update(
            v.path for v, gradient in zip(variables, computed, strict=True) if isinstance(gradient, tf.IndexedSlices)
        )
        task.optimizer.apply(computed, variables)
        return loss

    losses = [float(step(tf.constant([3, index], tf.int32))) for index in range(20)]
    assert sparse == SPARSE.get(name, set())
    assert np.isfinite(losses).all()
    assert all(np.isfinite(variable.numpy()).all() for variable in variables)


@pytest.mark.parametrize("name", SMALL)
def test_a_batch_follows_its_seed_and_has_static_shapes(name):
    task = build_task(name)
    batch = tf.function(task.batch)
    again, same, changed = (tf.nest.flatten(batch(tf.constant(seed, tf.int32))) for seed in ([1, 2], [1, 2], [1, 3]))
    assert all(np.array_equal(a, b) for a, b in zip(again, same, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(again, changed, strict=True))
    traced = batch.get_concrete_function(tf.TensorSpec((2,), tf.int32))
    assert not traced.captured_inputs
    for output in tf.nest.flatten(traced.structured_outputs):
        assert output.shape.is_fully_defined()
        assert output.shape[0] == task.batch_size


@pytest.mark.parametrize("name", SMALL)
def test_a_batch_drawn_by_numpy_is_of_the_same_make_as_one_in_the_graph_and_follows_its_seed(name):
    task = build_task(name)
    inside = tf.nest.flatten(task.batch(tf.constant([1, 2])))
    first, same, changed = (keras.tree.flatten(task.batch(np.random.SeedSequence(seed))) for seed in (5, 5, 6))
    for array, again, tensor in zip(first, same, inside, strict=True):
        assert isinstance(array, np.ndarray)
        assert (array.shape, array.dtype) == (tuple(tensor.shape), tensor.dtype.as_numpy_dtype)
        assert np.array_equal(array, again)
        assert array.max() <= 1.5 * max(tensor.numpy().max(), 3)
    assert not all(np.array_equal(a, b) for a, b in zip(first, changed, strict=True))


@SEEDS
def test_masked_positions_are_distinct_hidden_in_the_input_and_asked_for(seed):
    from autosync.zoo.synthetic import mask_tokens

    ids, positions, targets = (np.asarray(array) for array in mask_tokens(seed(), (7, 24), 6, 50))
    assert all(len(set(row)) == 6 for row in positions)
    assert (np.take_along_axis(ids, positions, axis=1) == 0).all()
    assert targets.shape == (7, 6)
    assert targets.max() < 50


@SEEDS
def test_zipf_ids_follow_zipfs_law(seed):
    from autosync.zoo.synthetic import zipf_ids

    ids = np.asarray(zipf_ids(seed(), (200_000,), 1000))
    share = np.bincount(ids, minlength=1000)[:5] / ids.size
    assert ids.min() == 0
    assert ids.max() == 999
    # 200 000 draws: the standard deviation of a share is below 0.0007; the bound is seven standard deviations.
    np.testing.assert_allclose(share, np.log(np.arange(2, 7) / np.arange(1, 6)) / np.log(1001), atol=0.005)


@SEEDS
def test_skewed_ids_fall_as_the_root_of_their_rank(seed):
    from autosync.zoo.synthetic import mildly_skewed_ids

    ids = np.asarray(mildly_skewed_ids(seed(), (200_000,), 1000))
    # P(id < k) = sqrt(k / 1000); the standard deviation of a share is below 0.0012; the bound is four of them.
    shares = [(ids < k).mean() for k in (10, 250, 500)]
    np.testing.assert_allclose(shares, np.sqrt([0.01, 0.25, 0.5]), atol=0.005)
    assert ids.max() == 999


@pytest.mark.parametrize("size", [1, 2, 97, 100, 1000, 26744])
def test_scattering_ids_loses_none(size):
    from autosync.zoo.synthetic import scatter

    ids = scatter(np.arange(size), size)
    assert sorted(ids) == list(range(size))
    assert np.array_equal(scatter(tf.range(size), size), ids)


def test_bert_means_a_mini_on_cpus_and_the_large_one_on_gpus():
    assert resolve_name("bert", 0) == "bert-mini"
    assert resolve_name("bert", 8) == "bert-large"
    assert resolve_name("ncf", 0) == "ncf"


def test_every_model_has_a_search_space():
    spaces = {name: default_space(name) for name in [*MODELS, "bert", "vgg", "resnet", "my.module:model"]}
    assert set(spaces.values()) == {"bert", "cnn", "ncf", "default"}
    assert spaces["transformer-lm"] == "bert"
    assert spaces["densenet121"] == "cnn"
    assert spaces["my.module:model"] == "default"


@pytest.mark.parametrize(("name", "near"), [("lenet", "resnet"), ("bert-tiny", "bert-mini")])
def test_an_unknown_name_lists_the_known_ones_and_the_form_of_ones_own(name, near):
    sentence = rf"'{name}'\. Did you mean '{near}'\? Known: bert, bert-base, .*package.module:fun"
    with pytest.raises(ModelError, match=f"No model is called {sentence}"):
        build_task(name)


def test_another_keras_backend_is_refused(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(ModelError, match="Keras must run on TensorFlow here, but its backend is 'jax'; set KERAS_BACK"):
        build_task("mlp")


def test_by_label_each_of_four_replicas_has_digits_of_its_own_kinds():
    task, mixed = build_task("digits-by-label"), build_task("digits")
    kinds = [
        set(np.concatenate([task.batch(tf.constant([step, replica]))[1].numpy() for step in range(60)]).tolist())
        for replica in range(5)
    ]
    assert kinds[:4] == [{0, 1, 2}, {2, 3, 4}, {4, 5, 6, 7}, {7, 8, 9}]
    assert kinds[4] == kinds[0]
    drawn = np.concatenate([mixed.batch(tf.constant([step, 0]))[1].numpy() for step in range(60)])
    assert set(drawn.tolist()) == set(range(10))


def test_the_injected_share_of_digits_is_drawn_from_all_replicas():
    batch = build_digits("digits-by-label", 64, 0.25).batch
    kinds = np.concatenate([batch(tf.constant([step, 3]))[1].numpy() for step in range(200)])
    foreign = float(np.mean(kinds < 7))
    assert foreign == pytest.approx(0.25 * 0.7, abs=0.02), "seven kinds of ten are others', and all come equally often"


def test_a_tenth_of_a_teachers_labels_are_drawn_and_the_least_loss_is_that_of_who_knows_it():
    batch = build_task("teacher").batch
    drawn = [batch(tf.constant([step, 0])) for step in range(400)]
    features, labels = (np.concatenate([batch[part].numpy() for batch in drawn]) for part in (0, 1))
    draw = np.random.default_rng(7)
    first, second = draw.normal(size=(20, 32)).astype("float32"), draw.normal(size=(32, 10)).astype("float32")
    taught = np.argmax((features @ first) ** 2 @ second, axis=1)
    wrong = float(np.mean(taught != labels))
    assert wrong == pytest.approx(0.09, abs=0.012)
    loss = -(1 - wrong) * np.log(0.91) - wrong * np.log(0.01)
    assert loss == pytest.approx(LEAST_LOSS, abs=0.06)
    assert len(set(taught.tolist())) > 5


def test_characters_are_those_of_pythons_library_and_the_next_ones_are_to_be_told():
    inputs, targets = build_task("characters").batch(tf.constant([3, 1]))
    text = library_text()
    assert len(text) == MOST_CHARACTERS
    assert (inputs.numpy()[:, 1:] == targets.numpy()[:, :-1]).all()
    assert bytes(inputs.numpy()[0].astype("uint8")) in text.tobytes()
