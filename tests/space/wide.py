"""A space with every option of the language, and a model whose matrices have factors."""

from __future__ import annotations

from dataclasses import replace

from autosync.space import (
    ALGORITHMS,
    Cast,
    Cut,
    PerServer,
    PowerSGD,
    Rule,
    Servers,
    Space,
    SufficientFactors,
    TopK,
    VariableFilter,
)
from autosync.spec import ModelSpec
from tests import cases

__all__ = ["WIDE", "factored_model"]

WIDE = Space(
    "wide",
    rules=(
        Rule(
            VariableFilter(sparse=True),
            Servers(),
            True,
            Cut((1, PerServer(1))),
            True,
            compressors=(None, Cast("fp16")),
        ),
        Rule(
            VariableFilter(over_bytes=10_000),
            Servers(local_copy=(False, True)),
            all_reduce=True,
            cut=Cut((1, 2, 3)),
            mixed_shards=True,
            algorithms=ALGORITHMS,
            compressors=(
                None, SufficientFactors(), Cast("bf16"), TopK(0.05), TopK(0.01, "star"), TopK(0.01, "var"), PowerSGD(2)
            ),
        ),
        Rule(
            servers=Servers(), all_reduce=True, algorithms=("tree", "hierarchical"), compressors=(None, Cast("bf16"))
        ),
    ),
    max_buckets=4,
    staleness=(0, 1, 4),
    changes_statistics=True,
)  # fmt: skip


def factored_model(model: ModelSpec | None = None) -> ModelSpec:
    """`model`, or a perceptron, with dense matrices whose gradients are products of 16 rows."""
    model = model or cases.mlp_model()
    factored = tuple(
        replace(variable, factor_rows=16) if len(variable.shape) == 2 and not variable.sparse else variable
        for variable in model.variables
    )
    return replace(model, variables=factored)
