"""Checkpoints of learned simulators: written, read, restored; and the one that comes with the program."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as bytes_of_tensors

from autosync.cost import BASES, AnalyticSimulator, Blended, Replay, Restorable, Simulator
from autosync.errors import AutosyncError, SpecError
from autosync.files import made_folder, read_whole, write_atomically
from autosync.simulator.encoding import (
    BUCKET_INPUTS,
    EDGE_INPUTS,
    ENCODING_VERSION,
    LINK_INPUTS,
    POOLED_INPUTS,
    SERVER_INPUTS,
    VARIABLE_INPUTS,
)
from autosync.simulator.encoding.pooled import FEATURES_VERSION
from autosync.simulator.ensemble import Ensemble, Uncertainty
from autosync.simulator.inputs import Normalization
from autosync.simulator.networks import network_called
from autosync.simulator.settings import Ablation, TrainingSettings
from autosync.spec import STATE, canonical_json, cut, quoted, read_json
from autosync.spec.codec import every, required

FORMAT = "autosync.simulator/3"
TENSORS, DOCUMENT = "simulator.safetensors", "simulator.json"


class CheckpointError(AutosyncError, RuntimeError):
    """A checkpoint cannot be read."""


def write_checkpoint(directory: Path, tensors: Mapping[str, torch.Tensor], document: Mapping[str, Any]) -> None:
    """Write both files, making `directory` where needed; each replaces an older one in one move."""
    made_folder(directory)
    content = bytes_of_tensors({name: tensor.contiguous() for name, tensor in tensors.items()})
    stated = {"format": FORMAT, "tensors_sha256": hashlib.sha256(content).hexdigest()}
    write_atomically(directory / TENSORS, content)
    write_atomically(directory / DOCUMENT, canonical_json({**document, **stated}))


def read_checkpoint(directory: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Read the files of `write_checkpoint`. Raises `CheckpointError` if one is missing, damaged or foreign."""
    try:
        document = read_json(directory / DOCUMENT, "A simulator's checkpoint", limits=STATE)
        content = read_whole(directory / TENSORS)
    except (OSError, SpecError) as error:
        raise CheckpointError(f"A checkpoint is a folder with {DOCUMENT} and {TENSORS}, but: {error}") from None
    if document.get("format") != FORMAT:
        raise CheckpointError(
            f"A checkpoint says format {FORMAT!r}, not {quoted(document.get('format'))} as this one; "
            "fit the simulator anew."
        )
    if document.get("tensors_sha256") != hashlib.sha256(content).hexdigest():
        raise CheckpointError(f"{TENSORS} is not the file that {DOCUMENT} was written with; save the simulator again.")
    try:
        tensors = tensors_from_bytes(content)
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
                raise CheckpointError(
                    f"{TENSORS} must hold finite numbers, but {quoted(name)} has others; fit the simulator anew."
                )
        return tensors, document
    except SafetensorError as error:
        raise CheckpointError(
            f"{TENSORS} must be a safetensors file, but: {error}; save the simulator again."
        ) from None


VERSION = f"{FEATURES_VERSION}.{ENCODING_VERSION}"
CHECKPOINTS = f"{FORMAT}, inputs {VERSION}"
"""What checkpoints must be to be read here: a part of the keys under which they are kept."""

INPUTS = {
    "pooled": list(POOLED_INPUTS),
    "variables": list(VARIABLE_INPUTS),
    "servers": list(SERVER_INPUTS),
    "buckets": list(BUCKET_INPUTS),
    "links": list(LINK_INPUTS),
    "edges": list(EDGE_INPUTS),
}


KINDS_BEFORE = ("real",)
"""What checkpoints were fitted to that do not say it: they are of before times were of several kinds."""


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What was learned, and from what; without an ensemble, nothing was.

    `kinds` are those of the times that it was learned from; see `RuntimeRecord.kind`.
    """

    ensemble: Ensemble | None = None
    spread: Uncertainty = field(default_factory=Uncertainty)
    record_count: int = 0
    data_digest: str = ""
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Saved:
    """Everything a learned simulator is."""

    network: str
    seed: int
    settings: TrainingSettings
    ablation: Ablation
    base: Simulator
    known: Knowledge


def write_saved(directory: Path, saved: Saved) -> None:
    """Write the checkpoint and replace an older one."""
    tensors, known = dict[str, torch.Tensor](), saved.known
    if known.ensemble is not None:
        tensors = {f"normalization.{name}": each for name, each in known.ensemble.normalization.tensors().items()}
        for number, member in enumerate(known.ensemble.members):
            tensors |= {f"member.{number}.{name}": tensor for name, tensor in member.tensors().items()}
    document = {
        "network": saved.network,
        "inputs": INPUTS,
        "inputs_version": VERSION,
        "members": len(known.ensemble.members) if known.ensemble else 0,
        "spread": known.spread.to_json(),
        "record_count": known.record_count,
        "data_digest": known.data_digest,
        "kinds": list(known.kinds),
        "seed": saved.seed,
        "settings": saved.settings.to_json(),
        "ablation": saved.ablation.to_json(),
        "base_kind": next((name for name, kind in BASES.items() if isinstance(saved.base, kind)), None),
        "base": saved.base.state() if isinstance(saved.base, Restorable) else None,
    }
    write_checkpoint(directory, tensors, document)


def read_saved(directory: Path, base: Simulator | None) -> Saved:
    """What was written, with `base`, or one of the saved kind, restored. Raises `CheckpointError`."""
    tensors, document = read_checkpoint(directory)
    if document.get("inputs_version") != VERSION or document.get("inputs") != INPUTS:
        raise CheckpointError(
            f"The checkpoint knows inputs of version {cut(str(document.get('inputs_version')))}, but this program "
            f"makes version {VERSION}; fit the simulator anew."
        )
    try:
        return Saved(
            document["network"],
            required(document, "seed", int, "It"),
            TrainingSettings.from_json(document["settings"]),
            Ablation.from_json(document["ablation"]),
            _restored_base(base, document),
            Knowledge(
                _restored_ensemble(tensors, document),
                Uncertainty.from_json(document["spread"]),
                required(document, "record_count", int, "It"),
                required(document, "data_digest", str, "It"),
                every(document, "kinds", str, "It") if "kinds" in document else KINDS_BEFORE,
            ),
        )
    except CheckpointError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError, AutosyncError) as error:
        raise CheckpointError(f"The checkpoint is damaged ({cut(str(error))}); fit the simulator anew.") from error


def _restored_ensemble(tensors: dict[str, torch.Tensor], document: dict[str, Any]) -> Ensemble | None:
    count = required(document, "members", int, "It")
    network = network_called(document["network"])
    if not 0 <= count <= len(tensors):
        raise ValueError(f"an ensemble of {quoted(count)} members from {len(tensors)} tensors")
    if not count:
        return None
    members = tuple(network.restore(_below(tensors, f"member.{number}.")) for number in range(count))
    return Ensemble(members, Normalization.from_tensors(_below(tensors, "normalization.")))


def _below(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)}


def _restored_base(base: Simulator | None, document: dict[str, Any]) -> Simulator:
    """The base with the saved state; what it was fitted to becomes its prior, from which it is fitted on."""
    state, kind = document["base"], document["base_kind"]
    if base is None:
        if kind not in BASES:
            raise CheckpointError(
                "The checkpoint's base simulator keeps no state of its own; hand that simulator over as base."
            )
        base = BASES[kind]()
    if state is not None and isinstance(base, Restorable):
        base.restore(state)
    if isinstance(base, AnalyticSimulator | Replay | Blended):
        base.go_on()
    return base


PRETRAINED = "pretrained"
"""The folder in this package; `autosync pretrain` writes one in it for each kind of times."""


def shipped_folder(kind: str) -> Path:
    """The folder of the checkpoint that comes with the program for times of this kind, such as *real*."""
    return Path(str(files("autosync.simulator"))) / PRETRAINED / kind


def shipped_checkpoint(kind: str) -> Path | None:
    """The folder of the checkpoint, for `LearnedSimulator.load`; None when none comes with this program."""
    folder = shipped_folder(kind)
    return folder if (folder / DOCUMENT).exists() else None
