"""Notes on differences between this training and `keras.Model.fit`, which are printed before training begins."""

from collections.abc import Sequence
from typing import Any

from autosync.engine.tensorflow.capture.variables import hidden_variables
from autosync.words.quantities import few_of


def notes_on_state(model: Any, state: Sequence[Any], per_replica: Sequence[Any], metrics: Sequence[str]) -> list[str]:
    """Return sentences on the state that every replica keeps for itself.

    `per_replica` has the `state` variables that a pass changes depending on the batch; `metrics` names the metrics that
    the pass itself updates.
    """
    notes = []
    if any("moving" in variable.path for variable in state):
        notes.append("Batch-norm statistics are kept per replica and are not synchronized.")
    of_examples = {id(variable) for variable in hidden_variables(model)}
    changed = [
        variable for variable in per_replica if "moving" not in variable.path and "seed_generator" not in variable.path
    ]
    if carried := [variable.path for variable in changed if id(variable) in of_examples]:
        notes.append(
            f"Each replica carries its own examples' state from step to step in {few_of(carried)}; with several "
            "replicas the model object keeps the state that it has."
        )
    if averaged := [variable.path for variable in changed if id(variable) not in of_examples]:
        notes.append(
            f"The forward pass changes {few_of(averaged)}: each replica does so by its own part of the batch, and the "
            "model object gets the replicas' mean, for whole numbers the first replica's."
        )
    if metrics:
        notes.append(
            f"The forward pass updates metrics of its own ({few_of(list(metrics))}), which are not reported; give "
            "metrics to autosync.distribute."
        )
    return notes
