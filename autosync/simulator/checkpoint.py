"""A learned simulator on disk: tensors as safetensors, all else as JSON."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as bytes_of_tensors

from autosync.errors import AutosyncError, SpecError
from autosync.spec import STATE, canonical_json, quoted, read_json

__all__ = ["CheckpointError", "read_checkpoint", "write_checkpoint"]

FORMAT = "autosync.simulator/2"
TENSORS, DOCUMENT = "simulator.safetensors", "simulator.json"


class CheckpointError(AutosyncError, RuntimeError):
    """A checkpoint cannot be read."""


def write_checkpoint(directory: Path, tensors: Mapping[str, torch.Tensor], document: Mapping[str, Any]) -> None:
    """Write both files, making `directory` where needed; each replaces an older one in one move."""
    directory.mkdir(parents=True, exist_ok=True)
    content = bytes_of_tensors({name: tensor.contiguous() for name, tensor in tensors.items()})
    stated = {"format": FORMAT, "tensors_sha256": hashlib.sha256(content).hexdigest()}
    _replace(directory / TENSORS, content)
    _replace(directory / DOCUMENT, canonical_json({**document, **stated}).encode())


def read_checkpoint(directory: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """What `write_checkpoint` wrote. Raises `CheckpointError` when it is missing, damaged or of another format."""
    try:
        document = read_json(directory / DOCUMENT, "A simulator's checkpoint", limits=STATE)
        content = (directory / TENSORS).read_bytes()
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
        return tensors_from_bytes(content), document
    except SafetensorError as error:
        raise CheckpointError(
            f"{TENSORS} must be a safetensors file, but: {error}; save the simulator again."
        ) from None


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(path.name + ".partial")
    temporary.write_bytes(content)
    os.replace(temporary, path)
