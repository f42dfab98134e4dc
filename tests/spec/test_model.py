"""The model noun: refused values, counts and JSON."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from autosync.errors import SpecError
from autosync.spec import ModelProfile, ModelSpec, Operator, Variable, VariableUse, canonical_json, parse_json
from tests import cases

MODELS = [
    cases.mlp_model(),
    cases.bert_like_model(),
    cases.bert_like_model(sparse=False),
    cases.ncf_like_model(),
    cases.prime_model(),
    cases.scalar_model(),
    cases.mixed_precision_model(),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_a_model_comes_back_from_json_as_it_was(model: ModelSpec):
    again = ModelSpec.from_json(parse_json(canonical_json(model.to_json()), "The model"))
    assert again == model
    assert again.digest == model.digest


def test_a_model_given_whole_numbers_keeps_its_digest_through_json():
    variables = (Variable("emb", (10, 4), "float32", 0, sparse=True, rows_per_step=3),)
    model = ModelSpec("m", 1, "SGD", 0, variables, (Operator("o", "embedding", 5, (), ("emb",)),))
    assert ModelSpec.from_json(parse_json(canonical_json(model.to_json()), "The model")).digest == model.digest


def test_bytes_follow_shape_and_dtype():
    variable = Variable("kernel", (3, 5, 7), "bfloat16", 0)
    assert (variable.elements, variable.row_elements, variable.bytes) == (105, 35, 210)
    scalar = Variable("scale", (), "float64", 0)
    assert (scalar.elements, scalar.row_elements, scalar.bytes) == (1, 1, 8)


def test_a_sparse_gradient_counts_the_rows_it_touches():
    variables = (
        Variable("emb", (100, 8), "float32", 1, sparse=True, rows_per_step=2.5),
        Variable("bias", (3,), "float32", 0),
    )
    assert ModelSpec("m", 1, "SGD", 0, variables).gradient_bytes == 2.5 * 8 * 4 + 12


def test_the_flops_of_a_model_are_those_of_its_operators():
    assert cases.mlp_model((4, 5), batch_size=10).flops == 2.0 * 10 * 4 * 5


def test_any_change_of_a_model_changes_its_digest():
    model = cases.mlp_model()
    changed = [
        replace(model, batch_size=7),
        replace(model, optimizer="Adam"),
        replace(model, slots=1),
        replace(model, operators=()),
        cases.mlp_model((64, 256, 256, 11)),
    ]
    assert len({changed_model.digest for changed_model in [model, *changed]}) == len(changed) + 1


def test_rows_of_two_replicas_are_optional_and_no_part_of_the_digest():
    known, old = cases.drawn_model(cases.ncf_like_model()), cases.ncf_like_model()
    assert ModelSpec.from_json(known.to_json()) == known != old
    assert known.digest == old.digest
    assert not any("rows_of_two" in variable for variable in old.to_json()["variables"])


def test_copies_of_sparse_variables_are_no_part_of_the_digest():
    model = cases.ncf_like_model()
    copied = cases.copied_model(model)
    assert ModelSpec.from_json(copied.to_json()) == copied != model
    assert copied.digest == model.digest


def test_rows_of_two_replicas_with_copies_are_part_of_the_digest():
    """With copies, a server's answer depends on them, and so does the step's time."""
    table = Variable("v", (40, 2), "float32", 0, True, 5.0, rows_of_two=8.0, copied=True)
    model = ModelSpec("m", 1, "SGD", 0, (table,))
    others = [replace(table, rows_of_two=8.5), replace(table, rows_of_two=None), replace(table, copied=False)]
    assert len({replace(model, variables=(variable,)).digest for variable in (table, *others)}) == 3


def test_only_sparse_variables_have_copies():
    with pytest.raises(SpecError, match=r"Variable 'v' is dense, and only sparse variables can be `copied`"):
        Variable("v", (40, 2), "float32", 0, copied=True)


@pytest.mark.parametrize(("sparse", "rows_of_two"), [(True, 4.9), (True, 10.1), (True, math.nan), (False, 5.0)])
def test_two_replicas_touch_from_one_to_two_times_the_rows_of_one(sparse, rows_of_two):
    with pytest.raises(SpecError, match=r"Variable 'v': two replicas touch from rows_per_step to twice as many rows"):
        Variable("v", (40, 2), "float32", 0, sparse, 5.0 if sparse else None, None, rows_of_two)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("w", (2,), "int32", 0), "Variable 'w' has dtype 'int32'. Trainable: float16, bfloat16, float32, float64."),
        (("w", (2, 0), "float32", 0), "Variable 'w' has shape (2, 0); every dimension must be at least 1."),
        (
            ("w", (2,), "float32", 0, True),
            "Variable 'w': sparse variables, and only these, state rows_per_step.",
        ),
        (
            ("w", (2,), "float32", 0, False, 1.0),
            "Variable 'w': sparse variables, and only these, state rows_per_step.",
        ),
        (("w", (), "float32", 0, True, 1.0), "Variable 'w' is a scalar and cannot have a sparse gradient."),
    ],
)
def test_a_variable_that_breaks_a_rule_is_refused(arguments: tuple[Any, ...], message: str):
    with pytest.raises(SpecError, match=re.escape(message)):
        Variable(*arguments)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ((), "Model 'm' has no trainable variable, so there is nothing to synchronize."),
        (
            (Variable("w", (2,), "float32", 0), Variable("w", (2,), "float32", 1)),
            "Model 'm' has two variables named 'w'; names must be unique.",
        ),
        (
            (Variable("w", (2,), "float32", 0), Variable("b", (2,), "float32", 2)),
            "Model 'm': ready_order must count its 2 variables from 0.",
        ),
    ],
)
def test_a_model_that_breaks_a_rule_is_refused(variables: tuple[Variable, ...], message: str):
    with pytest.raises(SpecError, match=re.escape(message)):
        ModelSpec("m", 1, "SGD", 0, variables)


def _profiled(model: ModelSpec, seconds: float = 0.1) -> ModelSpec:
    return replace(
        model, profile=ModelProfile(seconds, 2 * seconds, {variable.name: 0.5 for variable in model.variables})
    )


NONSENSE: dict[str, list[object]] = {
    "shape": [{}, [[1]], [{}], "x", -1, True, [10**60], [None], [1.5], [2**30, 2**30]],
    "ready_order": [{}, [], "x", 1.5, True, None],
    "rows_per_step": [{}, [1], "x", -1, True, 10**60, 1e300],
    "dtype": [{}, [], "x", 1, None],
    "name": [{}, [], 1, None],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in NONSENSE.items() for value in values])
def test_a_variable_of_nonsense_is_refused_in_a_sentence(field: str, value: object):
    with pytest.raises(SpecError):
        Variable.from_json({**Variable("v", (4,), "float32", 0, True, 1.0).to_json(), field: value})


@pytest.mark.parametrize("flops", [-1.0, math.inf, math.nan])
def test_an_operator_takes_flops(flops: float):
    with pytest.raises(SpecError, match="Operator 'op' takes 0 or more flops, not"):
        Operator("op", "matmul", flops)


def test_a_profile_of_nonsense_is_refused_in_a_sentence():
    for ready in ({"w": [0.5]}, {"w": None}, [1], {"w": "0.5"}):
        with pytest.raises(SpecError):
            ModelProfile.from_json({"forward_seconds": 1.0, "backward_seconds": 1.0, "ready": ready})


def test_a_profile_comes_back_from_json_and_is_no_part_of_the_digest():
    model = _profiled(cases.mlp_model())
    again = ModelSpec.from_json(parse_json(canonical_json(model.to_json()), "The model"))
    assert again == model
    assert again.profile == model.profile
    assert model.digest == cases.mlp_model().digest == _profiled(model, 0.7).digest
    assert "profile" not in cases.mlp_model().to_json()


def test_read_times_and_uses_come_back_from_json_and_are_absent_when_unknown():
    plain = _profiled(cases.mlp_model())
    assert plain.profile is not None
    assert set(plain.profile.to_json()) == {"forward_seconds", "backward_seconds", "ready"}
    names = [variable.name for variable in plain.variables]
    uses = (VariableUse(names[0], 0.0, 1.0, rows=3.5), VariableUse(names[0], 0.9, 0.1))
    profile = replace(plain.profile, read=dict.fromkeys(names, 0.25), uses=uses)
    model = replace(plain, profile=profile)
    again = ModelSpec.from_json(parse_json(canonical_json(model.to_json()), "The model"))
    assert (again.profile, again.digest) == (profile, plain.digest)
    assert profile.to_json()["uses"][1] == {"variable": names[0], "read": 0.9, "ready": 0.1}


def test_read_times_and_uses_that_do_not_fit_are_refused():
    profile = _profiled(cases.mlp_model()).profile
    assert profile is not None
    first = cases.mlp_model().variables[0].name
    with pytest.raises(SpecError, match="'w' is read at a fraction from 0 to 1, not -1"):
        replace(profile, read={"w": -1.0})
    with pytest.raises(SpecError, match=f"The profile of model 'mlp' does not say when '{first}' is read"):
        replace(cases.mlp_model(), profile=replace(profile, read={}))
    with pytest.raises(SpecError, match="The profile of model 'mlp' has a use of 'w', which is no variable"):
        replace(cases.mlp_model(), profile=replace(profile, uses=(VariableUse("w", 0.0, 1.0),)))
    with pytest.raises(SpecError, match="A use of variable 'w' is at a fraction from 0 to 1, not 2"):
        VariableUse("w", 0.0, 2.0)
    with pytest.raises(SpecError, match="A use of variable 'w' looks up 0 or more rows, not -1"):
        VariableUse("w", 0.0, 1.0, rows=-1.0)


def test_a_profile_that_is_none_is_refused():
    with pytest.raises(SpecError, match=r"passes take positive seconds, not 0.0 and 1.0"):
        ModelProfile(0.0, 1.0, {})
    with pytest.raises(SpecError, match="'w' is ready at a fraction from 0 to 1, not 2"):
        ModelProfile(1.0, 1.0, {"w": 2.0})
    first = cases.mlp_model().variables[0].name
    with pytest.raises(SpecError, match=f"The profile of model 'mlp' does not say when '{first}' is ready"):
        replace(cases.mlp_model(), profile=ModelProfile(1.0, 1.0, {}))
    more = {variable.name: 0.5 for variable in cases.mlp_model().variables} | {"more": 1.0}
    with pytest.raises(SpecError, match="The profile of model 'mlp' says when 'more' is ready, which is no variable"):
        replace(cases.mlp_model(), profile=ModelProfile(1.0, 1.0, more))
