"""Checkpoints of a module in training: safetensors files, whose parameters and buffers have the module's own names.

The buffers are those of replica 0. All else that training needs to resume has a name that begins with `autosync/`.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from autosync.engine.core.step_state import StepState
from autosync.engine.pytorch.capture import CapturedModule
from autosync.engine.pytorch.state import as_step_state, as_tensors, replica_names
from autosync.errors import SpecError, TrainingError
from autosync.spec import STATE, cut, parse_json, quote
from autosync.spec.codec import read_required

DOCUMENT, FORMAT = "autosync", "autosync.module/1"
"""The key of the JSON document in the file's metadata, and the format that the document states."""

OWN, FIRST = "autosync/", "replica/0/"


def checkpoint_bytes(state: StepState, captured: CapturedModule) -> bytes:
    """The content of a checkpoint of `captured` in the given state of training."""
    tensors = as_tensors(state, range(len(state.replica_state)), replica_names(captured))
    document = {"format": FORMAT, "steps": state.replica_steps[0], "replicas": len(state.replica_state)}
    in_file = {_name_in_file(name): tensor for name, tensor in tensors.items()}
    return save_tensors(in_file, {DOCUMENT: json.dumps(document)})


def read_checkpoint(data: bytes, name: str, captured: CapturedModule) -> StepState:
    """The state in the checkpoint `name`, which holds `data`. Raises `TrainingError` for another or a damaged file."""
    try:
        header = parse_json(data[8 : 8 + int.from_bytes(data[:8], "little")], "its header", limits=STATE)
        document = parse_json(header["__metadata__"][DOCUMENT], f"its {DOCUMENT}")
        if document["format"] != FORMAT:
            raise ValueError(f"its format is {quote(document['format'])}, not {FORMAT!r}")
        steps, replicas = (read_required(document, field, int, "Its document") for field in ("steps", "replicas"))
        trained = captured.spec.by_name.keys()
        tensors = {_name_on_ranks(key, trained): tensor for key, tensor in load_tensors(data).items()}
        return as_step_state(tensors, range(replicas), steps)
    except (LookupError, TypeError, ValueError, SafetensorError, SpecError) as error:
        reason = cut(str(error)).rstrip(".")
        raise TrainingError(f"{name!r} must be a checkpoint of autosync train, but: {reason}.") from None


def _name_in_file(name: str) -> str:
    return name.removeprefix("value/").removeprefix(FIRST) if name.startswith(("value/", FIRST)) else OWN + name


def _name_on_ranks(name: str, trained: Collection[str]) -> str:
    """The inverse of `_name_in_file`, for a module with the parameters `trained`."""
    if name.startswith(OWN):
        return name.removeprefix(OWN)
    return f"value/{name}" if name in trained else FIRST + name
