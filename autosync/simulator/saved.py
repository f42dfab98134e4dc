"""Checkpoints of learned simulators: write, read, restore; and the checkpoints shipped with the program."""

import hashlib
from collections.abc import Mapping, Sequence
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
from autosync.files import make_folder, read_whole, write_atomically
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
from autosync.spec import STATE, canonical_json, cut, quote, read_json
from autosync.spec.codec import read_list, read_required
from autosync.spec.pace_report import split_kind

FORMAT = "autosync.simulator/3"
TENSORS, DOCUMENT = "simulator.safetensors", "simulator.json"


class CheckpointError(AutosyncError, RuntimeError):
    """A checkpoint cannot be read."""


def write_checkpoint(directory: Path, tensors: Mapping[str, torch.Tensor], document: Mapping[str, Any]) -> None:
    """Write both files, creating `directory` if needed. Each file replaces an older one atomically."""
    make_folder(directory)
    content = bytes_of_tensors({name: tensor.contiguous() for name, tensor in tensors.items()})
    stated = {"format": FORMAT, "tensors_sha256": hashlib.sha256(content).hexdigest()}
    write_atomically(directory / TENSORS, content)
    write_atomically(directory / DOCUMENT, canonical_json({**document, **stated}))


def read_checkpoint(directory: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Read the files of `write_checkpoint`. Raises `CheckpointError` if a file is missing, damaged or foreign."""
    try:
        document = read_json(directory / DOCUMENT, "A simulator's checkpoint", limits=STATE)
        content = read_whole(directory / TENSORS)
    except (OSError, SpecError) as error:
        raise CheckpointError(f"A checkpoint must be a folder with {DOCUMENT} and {TENSORS}, but: {error}") from None
    if document.get("format") != FORMAT:
        raise CheckpointError(
            f"A checkpoint must have the format {FORMAT!r}, not {quote(document.get('format'))}; "
            "fit the simulator again."
        )
    if document.get("tensors_sha256") != hashlib.sha256(content).hexdigest():
        raise CheckpointError(
            f"{TENSORS} must be the file that {DOCUMENT} was written with, but it is another; save the simulator again."
        )
    try:
        tensors = tensors_from_bytes(content)
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
                raise CheckpointError(
                    f"{TENSORS} must hold finite numbers, but {quote(name)} has others; fit the simulator again."
                )
        return tensors, document
    except SafetensorError as error:
        raise CheckpointError(
            f"{TENSORS} must be a safetensors file, but: {error}; save the simulator again."
        ) from None


VERSION = f"{FEATURES_VERSION}.{ENCODING_VERSION}"
CHECKPOINTS = f"{FORMAT}, inputs {VERSION}"
"""The formats that this program reads. They are part of the keys under which checkpoints are cached."""

INPUTS = {
    "pooled": list(POOLED_INPUTS),
    "variables": list(VARIABLE_INPUTS),
    "servers": list(SERVER_INPUTS),
    "buckets": list(BUCKET_INPUTS),
    "links": list(LINK_INPUTS),
    "edges": list(EDGE_INPUTS),
}


KINDS_BEFORE = ("real",)
"""The kinds of times assumed for checkpoints that state none, because they are older than the other kinds."""


@dataclass(frozen=True, eq=False)
class Knowledge:
    """The learned state and its training records. Without an ensemble, nothing was learned."""

    ensemble: Ensemble | None = None
    spread: Uncertainty = field(default_factory=Uncertainty)
    record_count: int = 0
    """The number of training records."""
    data_digest: str = ""
    """The digest of the records of the last fit."""
    kinds: tuple[str, ...] = ()
    """The kinds of the training times; see `RuntimeRecord.kind`."""


@dataclass(frozen=True, eq=False)
class Saved:
    """The whole state of a learned simulator."""

    network: str
    seed: int
    settings: TrainingSettings
    ablation: Ablation
    base: Simulator
    known: Knowledge


def write_saved(directory: Path, saved: Saved) -> None:
    """Write the checkpoint, replacing an older one."""
    tensors, known = dict[str, torch.Tensor](), saved.known
    if known.ensemble is not None:
        tensors = {f"normalization.{name}": tensor for name, tensor in known.ensemble.normalization.tensors().items()}
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
    """Read a checkpoint. Its base state is restored into `base`, or into a new base of the saved kind.

    Raises `CheckpointError`.
    """
    tensors, document = read_checkpoint(directory)
    if document.get("inputs_version") != VERSION or document.get("inputs") != INPUTS:
        raise CheckpointError(
            f"The checkpoint has inputs of version {cut(str(document.get('inputs_version')))}, but this program "
            f"needs version {VERSION}; fit the simulator again."
        )
    try:
        kinds = read_list(document, "kinds", str, "It") if "kinds" in document else KINDS_BEFORE
        return Saved(
            document["network"],
            read_required(document, "seed", int, "It"),
            TrainingSettings.from_json(document["settings"]),
            Ablation.from_json(document["ablation"]),
            _restore_base(base, document, kinds),
            Knowledge(
                _restore_ensemble(tensors, document),
                Uncertainty.from_json(document["spread"]),
                read_required(document, "record_count", int, "It"),
                read_required(document, "data_digest", str, "It"),
                kinds,
            ),
        )
    except CheckpointError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError, AutosyncError) as error:
        raise CheckpointError(f"The checkpoint is damaged ({cut(str(error))}); fit the simulator again.") from error


def _restore_ensemble(tensors: dict[str, torch.Tensor], document: dict[str, Any]) -> Ensemble | None:
    count = read_required(document, "members", int, "It")
    network = network_called(document["network"])
    if not 0 <= count <= len(tensors):
        raise ValueError(f"an ensemble of {quote(count)} members from {len(tensors)} tensors")
    if not count:
        return None
    members = tuple(network.restore(_below(tensors, f"member.{number}.")) for number in range(count))
    return Ensemble(members, Normalization.from_tensors(_below(tensors, "normalization.")))


def _below(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _restore_base(base: Simulator | None, document: dict[str, Any], kinds: Sequence[str]) -> Simulator:
    """Return the base with the saved state. The state becomes the base's prior, from which later fits continue."""
    state, kind = document["base"], document["base_kind"]
    if base is None:
        if kind not in BASES:
            raise CheckpointError("The checkpoint has no state of its base simulator; pass that simulator as `base`.")
        base = Blended(_framework_in(kinds)) if kind == "blended" else BASES[kind]()
    if state is not None and isinstance(base, Restorable):
        base.restore(state)
    if isinstance(base, AnalyticSimulator | Replay | Blended):
        base.go_on()
    return base


def _framework_in(kinds: Sequence[str]) -> str | None:
    """The framework of the training records, as records name it. Raises `CheckpointError` if there are several."""
    frameworks = {split_kind(kind)[0] for kind in kinds} or {None}
    if len(frameworks) > 1:
        raise CheckpointError(
            f"The checkpoint was fitted to {quote(list(kinds))}, of several frameworks; fit the simulator again."
        )
    return frameworks.pop()


PRETRAINED = "pretrained"
"""The folder in this package; `autosync pretrain` writes a folder in it for each kind of times."""


def shipped_folder(kind: str) -> Path:
    """Return the folder of the shipped checkpoint for this kind of times, such as *real* or *pytorch-real*."""
    return Path(str(files("autosync.simulator"))) / PRETRAINED / kind


def shipped_checkpoint(kind: str) -> Path | None:
    """Return the folder of the checkpoint, for `LearnedSimulator.load`; None if none is shipped with this program."""
    folder = shipped_folder(kind)
    return folder if (folder / DOCUMENT).exists() else None
