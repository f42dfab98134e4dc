"""Gradient-boosted trees (LightGBM) over pooled inputs, grown on the loss that all networks share: a control."""

from collections.abc import Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch

from autosync.errors import AutosyncError
from autosync.simulator.examples import Examples, Targets
from autosync.simulator.inputs import Detail, Inputs
from autosync.simulator.networks.network import Member, Network
from autosync.simulator.settings import TrainingSettings
from autosync.simulator.train import (
    ERROR,
    FEWEST_HELD,
    OUTLIER,
    TEMPERATURE,
    Lesson,
    Pairs,
    chosen_pairs,
    loss,
    pair_weights,
)

FloatArray = npt.NDArray[np.float64]

FEWEST_IN_LEAF = 5
"""The fewest records in a leaf: under twice as many in all nothing is learned, since no prior holds trees back."""
PATIENCE = 30
"""Trees without a gain on held-out records after which no more are grown."""


def lightgbm() -> Any:
    """The library, which is an extra. Raises `AutosyncError` without it."""
    try:
        import lightgbm as library
    except ImportError:
        raise AutosyncError(
            "Network 'trees' needs LightGBM, which is not installed; install autosync[trees], or take another network."
        ) from None
    return library


@final
class TreesMember:
    """A booster, kept as LightGBM's own text; without text, no trees."""

    def __init__(self, text: str = "") -> None:
        self._text = text
        self._booster = lightgbm().Booster(model_str=text) if text else None

    def residuals(self, inputs: Inputs) -> FloatArray:
        if self._booster is None or not len(inputs):
            return np.zeros(len(inputs))
        return np.asarray(self._booster.predict(inputs.pooled.numpy(), raw_score=True, num_threads=1), dtype=np.float64)

    def tensors(self) -> dict[str, torch.Tensor]:
        return {}

    def text(self) -> str:
        return self._text


def trees() -> Network:
    return Network(Detail.POOLED, TrainingSettings(members=5, steps=300, learning_rate=0.05), _trained, _restored)


def _restored(tensors: Mapping[str, torch.Tensor], text: str) -> Member:
    del tensors
    return TreesMember(text)


def _trained(lesson: Lesson, start: Member | None) -> Member:
    """Trees are added to those of `start`."""
    library, settings, taught, held = lightgbm(), lesson.settings, lesson.taught, lesson.held
    differs = (taught.inputs.gathered().pooled != taught.inputs.gathered().pooled[:1]).any()
    if len(taught) < 2 * FEWEST_IN_LEAF or not differs:
        return start or TreesMember()
    pairs = chosen_pairs(taught.targets, settings.pairs, lesson.generator)
    parameters = {
        "learning_rate": settings.learning_rate,
        "num_leaves": 8,
        "min_data_in_leaf": max(FEWEST_IN_LEAF, min(20, len(taught) // 10)),
        "lambda_l2": 1.0,
        "feature_fraction": 0.6,
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "seed": int(torch.randint(2**31, (), generator=lesson.generator)),
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "verbosity": -1,
        "feature_pre_filter": False,
        "objective": lambda raw, _: _slopes(torch.from_numpy(raw), taught.targets, pairs, settings.ranking_weight),
    }
    data = library.Dataset(
        taught.inputs.gathered().pooled.numpy(), taught.targets.measured.numpy(), free_raw_data=False
    )
    options: dict[str, Any] = {"num_boost_round": settings.steps}
    if start is not None and start.text():
        options["init_model"] = library.Booster(model_str=start.text())
    if len(held) >= FEWEST_HELD:
        other = library.Dataset(held.inputs.gathered().pooled.numpy(), held.targets.measured.numpy(), reference=data)
        options |= {"valid_sets": [other], "feval": _judge(held, lesson)}
        options["callbacks"] = [library.early_stopping(PATIENCE, verbose=False)]
    booster = library.train(parameters, data, **options)
    return TreesMember(booster.model_to_string(num_iteration=booster.best_iteration))


def _judge(held: Examples, lesson: Lesson) -> Any:
    pairs = chosen_pairs(held.targets, lesson.settings.pairs, lesson.generator)

    def judge(raw: FloatArray, _: Any) -> tuple[str, float, bool]:
        predicted = held.targets.base + torch.from_numpy(raw)
        return "loss", float(loss(predicted, held.targets, pairs, lesson.settings.ranking_weight)), False

    return judge


def _slopes(
    residuals: torch.Tensor, targets: Targets, pairs: Pairs, ranking_weight: float
) -> tuple[FloatArray, FloatArray]:
    """First and second derivatives of the loss times the records' weight, float64 (n,) each."""
    weights, of_pairs, (faster, slower) = targets.weights, pair_weights(targets, pairs), pairs
    predicted = targets.base + residuals
    errors = (predicted - targets.measured) / ERROR
    first = weights * errors.clamp(-OUTLIER, OUTLIER) / ERROR
    second = weights / ERROR**2
    wrong = torch.sigmoid((predicted[faster] - predicted[slower]) / TEMPERATURE)
    scale = ranking_weight * of_pairs * weights.sum() / max(float(of_pairs.sum()), 1e-9)
    bend = scale * wrong * (1 - wrong) / TEMPERATURE**2
    for places, sign in ((faster, 1.0), (slower, -1.0)):
        first = first.index_add(0, places, sign * scale * wrong / TEMPERATURE)
        second = second.index_add(0, places, bend)
    return first.numpy() * ERROR**2, second.numpy() * ERROR**2
