"""When the steps of a model need its variables: the order of their first reads, and how urgent each gradient is.

Notation, in shares of a step's passes: r(v) is the time at which the gradient of v is ready, n(v) the time at which the
next forward pass first reads v. Without a barrier, the gradient of v can travel for one step less r(v) - n(v), so
variables with a large r(v) - n(v) are urgent.
"""

from autosync.spec import ModelSpec

FORWARD_SHARE = 1 / 3
"""The forward pass's share of both passes, for a model without a profile: a backward pass has twice the flops."""


def read_order(model: ModelSpec) -> tuple[int, ...]:
    """The position of each variable, in graph order, in the order in which the forward pass first reads variables.

    Without measured reads, it is the reverse of the order in which gradients become ready.
    """
    reads = _reads(model)
    ordered = sorted(range(len(reads)), key=lambda index: (reads[index], -model.variables[index].ready_order))
    positions = dict(zip(ordered, range(len(ordered)), strict=True))
    return tuple(positions[index] for index in range(len(ordered)))


def urgencies(model: ModelSpec) -> tuple[float, ...]:
    """r(v) - n(v) of each variable in graph order, from 0 to 1; see the module's docstring."""
    profile = model.pace_profile
    forward = FORWARD_SHARE
    if profile is not None:
        forward = profile.forward_seconds / (profile.forward_seconds + profile.backward_seconds)
    return tuple(
        forward + (1 - forward) * ready - forward * read
        for ready, read in zip(_ready(model), _reads(model), strict=True)
    )


def _ready(model: ModelSpec) -> list[float]:
    """The share of the backward pass after which each gradient is ready, in graph order."""
    profile, count = model.pace_profile, len(model.variables)
    if profile is None:
        return [(variable.ready_order + 1) / count for variable in model.variables]
    return [profile.ready[variable.name] for variable in model.variables]


def _reads(model: ModelSpec) -> list[float]:
    """The share of the forward pass before each variable's first read, in graph order."""
    profile = model.pace_profile
    if profile is None or profile.read is None:
        return [1 - ready for ready in _ready(model)]
    return [profile.read[variable.name] for variable in model.variables]
