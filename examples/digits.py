"""Trains a classifier of handwritten digits under three synchronization strategies and compares the results.

    python examples/digits.py                     four workers as logical devices of this process: no Ray, one minute
    python examples/digits.py --cluster auto      four worker processes on a local Ray
    python examples/digits.py --cluster HOST:PORT --nodes 4     a running Ray cluster, one worker on each of 4 nodes

The data are scikit-learn's 1797 images of 8 x 8 pixels (`pip install scikit-learn`). A synchronization strategy
defines, for each variable of a model, how the gradients are combined: by an all-reduce among the replicas or on a
parameter server, whole or cut into shards. The strategy changes the speed of a step, but not the training result: all
strategies below follow the loss curve of plain Keras in one process. Usually `python -m autosync.tune` finds the
strategy; the strategies here are handwritten.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's log to errors only; before it is imported
os.environ["KERAS_BACKEND"] = "tensorflow"

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import autosync
from autosync.spec import AllReduce, ParameterServer, Partition, Strategy, VariableStrategy
from autosync.train import use_logical_devices

WORKERS = 4
BATCH_SIZE = 128
"""Images per batch, for all workers together. 1437 training images make eleven batches of 128 and one of 29, which four
workers share unevenly."""


@dataclass(frozen=True)
class Batches:
    """The training data. Each iteration yields one epoch of (images, labels), in another order."""

    images: Any
    labels: Any
    order: np.random.Generator

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        shuffled = self.order.permutation(len(self.images))
        for begin in range(0, len(shuffled), BATCH_SIZE):
            chosen = shuffled[begin : begin + BATCH_SIZE]
            yield self.images[chosen], self.labels[chosen]


def make_model() -> Any:
    """Return a plain Keras model. Its inputs leave the batch size open, so that workers can get batches of any size."""
    import keras

    keras.utils.set_random_seed(0)  # the same initial weights for every strategy
    images = keras.Input((8, 8, 1))
    features = keras.layers.Conv2D(16, 3, activation="gelu", name="convolution")(images)
    hidden = keras.layers.Dense(48, activation="gelu", name="hidden")(keras.layers.Flatten()(features))
    return keras.Model(images, keras.layers.Dense(10, name="logits")(hidden), name="digits")


def make_optimizer() -> Any:
    """Return the optimizer. Any elementwise Keras optimizer works; its state is stored where the strategy puts the
    variable."""
    import keras

    return keras.optimizers.SGD(0.05, momentum=0.9)


def make_loss() -> Any:
    """Return the loss, a mean over examples as all Keras losses by default."""
    import keras

    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def strategies(devices: list[str], variables: list[str]) -> dict[str, Strategy]:
    """Return three strategies that synchronize `variables` over `devices`; every device runs a replica of the model."""
    replicas = tuple(devices)

    # Every replica has all variables; gradients are summed by a ring all-reduce in a single bucket (group 0).
    all_reduce = Strategy(replicas, tuple(VariableStrategy(name, (AllReduce(0),)) for name in variables))

    # Every variable has a server; replicas read the value there and send their gradients. Servers are assigned in turn.
    servers = Strategy(
        replicas,
        tuple(
            VariableStrategy(name, (ParameterServer(devices[number % len(devices)]),))
            for number, name in enumerate(variables)
        ),
    )

    # The one large matrix is cut into two shards: one on a server, one in a ring (group 1). A bias is on a server, and
    # the other variables are in a ring of their own (group 0).
    mixed = {name: VariableStrategy(name, (AllReduce(0),)) for name in variables}
    mixed["hidden/kernel"] = VariableStrategy(
        "hidden/kernel", (ParameterServer(devices[1]), AllReduce(1)), Partition(axis=0, shards=2)
    )
    mixed["logits/bias"] = VariableStrategy("logits/bias", (ParameterServer(devices[0]),))
    mixture = Strategy(replicas, tuple(mixed.values()))

    return {"all-reduce": all_reduce, "parameter servers": servers, "mixture": mixture}


@dataclass(frozen=True)
class Outcome:
    """The result of one training run."""

    losses: list[float]
    accuracy: float
    seconds: float


def train_in_one_process(batches: Batches, tests: tuple[Any, Any], epochs: int) -> Outcome:
    """Train with plain Keras, for comparison."""
    model = make_model()
    model.compile(optimizer=make_optimizer(), loss=make_loss(), metrics=["accuracy"])
    losses, begin = [], time.perf_counter()
    for _ in range(epochs):
        for images, labels in batches:
            model.reset_metrics()  # so that the loss is of this batch only
            losses.append(float(model.train_on_batch(images, labels)[0]))
    seconds = time.perf_counter() - begin
    return Outcome(losses, float(model.evaluate(*tests, verbose=0)[1]), seconds)


def train_under(
    strategy: Strategy, batches: Batches, tests: tuple[Any, Any], epochs: int, where: dict[str, Any]
) -> Outcome:
    """Run the same training, distributed under `strategy`."""
    import keras

    begin = time.perf_counter()
    with (
        autosync.distribute(make_model(), make_loss(), make_optimizer(), strategy, **where) as trainer,
        TemporaryDirectory() as folder,
    ):
        for _ in range(epochs):
            trainer.fit(batches)  # one pass over the data; steps=N trains for N steps
        seconds = time.perf_counter() - begin
        # The file has Keras' format: you can load it without autosync and continue training with the same optimizer.
        trainer.save(Path(folder) / "digits.keras")
        model = keras.models.load_model(Path(folder) / "digits.keras")
    predicted = np.argmax(model.predict(tests[0], verbose=0), axis=1)
    return Outcome(trainer.history.loss, float(np.mean(predicted == tests[1])), seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on handwritten digits under three synchronization strategies.")
    parser.add_argument("--cluster", help="Address of a Ray cluster, or `auto` for a local one.  [default: no Ray]")
    parser.add_argument("--nodes", type=int, help="Number of the cluster's nodes to use, with one worker per node.")
    parser.add_argument("--epochs", type=int, default=15)
    options = parser.parse_args()

    where: dict[str, Any] = {"backend": "local", "workers": WORKERS}
    devices = [f"node0/cpu:{index}" for index in range(WORKERS)]  # worker processes of one machine
    if options.cluster is None:
        use_logical_devices(WORKERS)  # before any other code asks TensorFlow for a device
    else:
        where = {"cluster": None if options.cluster == "auto" else options.cluster, "workers": options.nodes}
        if options.nodes is not None:
            devices = [f"node{index}/cpu:0" for index in range(options.nodes)]

    images, labels = load_digits(return_X_y=True)
    images = (images / 16.0).reshape(-1, 8, 8, 1).astype("float32")
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, labels, test_size=360, random_state=0, stratify=labels
    )

    def batches() -> Batches:
        return Batches(train_images, train_labels, np.random.default_rng(0))

    tests = (test_images, test_labels)
    reference = train_in_one_process(batches(), tests, options.epochs)
    variables = [variable.path for variable in make_model().trainable_variables]
    rows = [("one process, plain Keras", reference)]
    for name, strategy in strategies(devices, variables).items():
        rows.append((name, train_under(strategy, batches(), tests, options.epochs, where)))

    print(f"{len(reference.losses)} steps of {BATCH_SIZE} images on {len(devices)} replicas; the last batch has 29")
    print(f"{'':26}{'first loss':>12}{'last loss':>12}{'test accuracy':>15}{'loss curve off by':>20}{'seconds':>10}")
    for name, outcome in rows:
        off = max(abs(mine - plain) for mine, plain in zip(outcome.losses, reference.losses, strict=True))
        print(
            f"{name:26}{outcome.losses[0]:12.4f}{outcome.losses[-1]:12.4f}{outcome.accuracy:15.2%}{off:20.1e}"
            f"{outcome.seconds:10.1f}"
        )


if __name__ == "__main__":
    main()
