"""Updates by the holders of spans: a rank updates the elements whose sums it completes, and the new values travel.

Every rank keeps the optimizer's state for its own elements alone, as the first stage of ZeRO does (Rajbhandari et al.,
"ZeRO: Memory optimizations toward training trillion parameter models", 2020).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import nn

from autosync.engine.pytorch.bucket import Bucket, SlicePart
from autosync.engine.pytorch.optimizer import is_elementwise
from autosync.errors import SpecError
from autosync.layout.moves import Span

State = dict[str, Any]
"""The optimizer's state of a parameter: tensors of the parameter's shape, scalar tensors, and numbers."""

Share = Callable[[bytes], Sequence[bytes]]
"""Share bytes with all ranks; return the bytes of all ranks, by rank."""

NORM_OFFSET = 1e-6
"""Added to the norm before the division, as `torch.nn.utils.clip_grad_norm_` does."""

END_OF_NAMES = b"\0"
"""The byte between the names and numbers of states, as JSON, and their tensors."""


class ElsewhereGradient(torch.Tensor):
    """The `grad` of a parameter whose mean gradient is spread over its holders. Reading it raises `RuntimeError`."""

    @staticmethod
    def __new__(cls, parameter: torch.Tensor) -> ElsewhereGradient:
        made: ElsewhereGradient = torch.Tensor._make_wrapper_subclass(
            cls, parameter.shape, dtype=parameter.dtype, device=parameter.device
        )
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return "<gradient that is spread over the ranks>"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        if func in (torch.ops.aten.zero_.default, torch.ops.aten.detach.default):
            return args[0]  # `zero_grad` may reset a gradient that it does not read
        raise RuntimeError(
            "With distribute(..., optimizer=...) the mean gradients are spread over the ranks, so a parameter's grad "
            "cannot be read; to clip them, call autosync.torch.clip_grad_norm_(model, max_norm)."
        )


@dataclass(frozen=True, eq=False)
class Segment:
    """Elements of a parameter's slice, counted row by row, whose sums a rank completes."""

    part: SlicePart
    begin: int
    end: int
    holder: int
    """The rank."""

    @property
    def parameter(self) -> nn.Parameter:
        return self.part.parameter

    @property
    def shape(self) -> tuple[int, ...]:
        """A segment is flat, but that of a scalar is a scalar, as its state is."""
        return (self.end - self.begin,) if self.parameter.ndim else ()

    @property
    def flat(self) -> torch.Tensor:
        """The elements in the bucket: their mean gradients, and after the update their new values."""
        begin = self.part.begin
        return self.part.bucket.flat[begin + self.begin : begin + self.end].view(self.shape)

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The segment's elements of a tensor with the parameter's shape; a copy if they do not lie end to end."""
        return self.part.of(tensor).reshape(-1)[self.begin : self.end].view(self.shape)

    def write(self, tensor: torch.Tensor, elements: torch.Tensor) -> None:
        """Write the segment's elements of a tensor with the parameter's shape."""
        part = self.part.of(tensor)
        flat = part.reshape(-1)
        flat[self.begin : self.end] = elements.reshape(-1)
        if flat.data_ptr() != part.data_ptr():
            part.copy_(flat.view(part.shape))


def segments_of(bucket: Bucket, ranks: Sequence[int]) -> list[Segment]:
    """The segments of all ranks, in an order that all ranks agree on; `ranks[m]` is the rank of member m.

    In some algorithms several ranks complete the sum of an element; the first segment with the element counts.
    """
    spans = sorted(
        (begin + exchange.span[0], end + exchange.span[0], rank)
        for exchange in bucket.plan.exchanges
        for rank, program in zip(ranks, exchange.programs, strict=True)
        for program_round in program.rounds
        for begin, end in program_round.finished
    )
    return [segment for begin, end, rank in spans for segment in _inside(bucket, (begin, end), rank)]


def _inside(bucket: Bucket, span: Span, rank: int) -> Iterator[Segment]:
    """The segments of a span of the bucket that `rank` completes."""
    for part in bucket.parts:
        begin, end = max(0, span[0] - part.begin), min(part.slice.elements, span[1] - part.begin)
        if begin < end:
            yield Segment(part, begin, end, rank)


@final
class HolderUpdates:
    """The user's optimizer, which updates this rank's segments instead of whole parameters.

    The optimizer's parameter groups hold the segments from `place` until `restore`, so learning-rate schedulers, fused
    updates and the user's own changes of settings work on them. Tables with sparse gradients and frozen parameters stay
    in their groups: every rank updates the tables. `state_dict` and `load_state_dict` of the optimizer have the form of
    the plain optimizer; all ranks call `state_dict` together, because each of them gets the state of all segments.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, names: Mapping[nn.Parameter, str], share: Share) -> None:
        """`names` has the trainable parameters. Raises `SpecError` if they cannot be updated in segments."""
        self.optimizer = optimizer
        self.names = names
        self._share = share
        self._groups = [list(group["params"]) for group in optimizer.param_groups]
        """The parameters of each group in the plain optimizer."""
        self.replicated = {parameter for group in self._groups for parameter in group}
        """The parameters that the plain optimizer holds and every rank updates: those without a segment."""
        self._check()
        self._segments: list[Segment] = []
        self._elsewhere: dict[nn.Parameter, ElsewhereGradient] = {}
        self._idle: nn.Parameter | None = None
        """Values of no elements if this rank has no segment, so that a loss scaler finds gradients on all ranks."""
        self.own: list[tuple[Segment, nn.Parameter]] = []
        """This rank's segments, with their values."""
        self._is_unused = False
        """Whether a backward pass has begun before the gradients of the last were used or reset."""
        self._handles = [
            optimizer.register_state_dict_post_hook(self._on_state_dict),
            optimizer.register_load_state_dict_pre_hook(self._on_load_state_dict),
            # Runs before autograd adds to `grad`.
            *(parameter.register_hook(self._clears(parameter)) for parameter in names),
        ]

    def _check(self) -> None:
        name = type(self.optimizer).__name__
        for parameter, parameter_name in self.names.items():
            if parameter not in self.replicated:
                raise SpecError(
                    f"The optimizer does not hold parameter {parameter_name!r}; freeze the parameter, or give the "
                    "optimizer all trainable parameters."
                )
        if not is_elementwise(self.optimizer):
            raise SpecError(
                f"{name} does not update each element alone, so its update cannot be split among the replicas; leave "
                "out optimizer=, and every replica updates all parameters."
            )

    def place(self, buckets: Sequence[Bucket], ranks: Sequence[int], rank: int) -> None:
        """Update the segments of these buckets from now on. All ranks call this together.

        Raises `SpecError` for a bucket with a compressor.
        """
        for bucket in buckets:
            if bucket.plan.synchronizer.compressor is not None:
                raise SpecError(
                    f"Variable {bucket.plan.slices[0].variable.name!r} has a compressor, which encodes gradients, but "
                    "with optimizer= values travel, too; leave out optimizer=."
                )
        state = self.state() if self._segments else dict(self.optimizer.state)
        self._segments = [segment for bucket in buckets for segment in segments_of(bucket, ranks)]
        self._elsewhere = {segment.parameter: ElsewhereGradient(segment.parameter) for segment in self._segments}
        self.replicated = {parameter for group in self._groups for parameter in group} - self._elsewhere.keys()
        self.own = [
            (segment, nn.Parameter(segment.of(segment.parameter.detach()).clone()))
            for segment in self._segments
            if segment.holder == rank
        ]
        for group, parameters in zip(self.optimizer.param_groups, self._groups, strict=True):
            group["params"] = list(self._in_place_of(parameters))
        self._idle = None
        if not self.own:
            self._idle = nn.Parameter(next(iter(self.names)).detach().new_empty(0))
            self.optimizer.param_groups[0]["params"].append(self._idle)
        self._set_state(state)

    def take_gradients(self) -> None:
        """Make the means in the buckets the gradients of the segments."""
        self._is_unused = False
        if self._idle is not None:
            self._idle.grad = torch.zeros_like(self._idle)
        for segment, values in self.own:
            values.grad = segment.flat
        for parameter, elsewhere in self._elsewhere.items():
            parameter.grad = elsewhere

    def has_gradients(self) -> bool:
        """Whether gradients are left that neither an update has used nor `zero_grad` has reset."""
        is_unused = self._is_unused or any(isinstance(parameter.grad, ElsewhereGradient) for parameter in self.names)
        return is_unused and any(values.grad is not None and bool(values.grad.any()) for _, values in self.own)

    @torch.no_grad()
    def read_values(self) -> None:
        """Begin an update: take the values that the parameters have now."""
        for segment, values in self.own:
            values.copy_(segment.of(segment.parameter))

    @torch.no_grad()
    def write_values(self) -> None:
        """End an update: overwrite the gradients in the buckets by the values of the segments."""
        for segment, values in self.own:
            values.grad = None
            segment.flat.copy_(values)

    def clip(self, max_norm: float, norm_type: float, error_if_nonfinite: bool) -> torch.Tensor:
        """Scale all gradients so that their joint norm is at most `max_norm`; return the norm before.

        All ranks call this together, and get the same bits. Raises `RuntimeError` for a norm that is not finite if that
        is an error.
        """
        norm = self._norm(norm_type)
        if error_if_nonfinite and not torch.isfinite(norm):
            raise RuntimeError(f"The norm of all gradients is {norm.item()}, so they cannot be clipped.")
        factor = torch.clamp(max_norm / (norm + NORM_OFFSET), max=1.0)
        gradients = [values.grad for _, values in self.own if values.grad is not None]
        for gradient in [*gradients, *self._replicated_gradients()]:
            gradient.mul_(factor.to(gradient.dtype))
        return norm

    def _norm(self, norm_type: float) -> torch.Tensor:
        """The norm of all gradients together, in float64, with the same bits on all ranks."""
        counted: dict[int, int] = {}  # by part, the elements that earlier segments have counted
        gradients = {segment: values.grad for segment, values in self.own}
        own = []
        for segment in self._segments:
            first = max(segment.begin, counted.get(id(segment.part), 0))
            counted[id(segment.part)] = max(first, segment.end)
            gradient = gradients.get(segment)
            if gradient is not None and first < segment.end:
                own.append(gradient.reshape(-1)[first - segment.begin :])
        shared = self._share(_norm_of(own, norm_type).cpu().numpy().tobytes())
        norms = [torch.frombuffer(bytearray(data), dtype=torch.float64) for data in shared]
        replicated = [
            gradient.coalesce().values() if gradient.is_sparse else gradient
            for gradient in self._replicated_gradients()
        ]
        return torch.linalg.vector_norm(torch.cat([*norms, _norm_of(replicated, norm_type)]), norm_type)

    def state(self) -> dict[torch.Tensor, State]:
        """The state of the plain optimizer. All ranks call this together, because each of them gets all segments."""
        whole: dict[torch.Tensor, State] = {
            parameter: state for parameter, state in self.optimizer.state.items() if parameter in self.replicated
        }
        for data in self._share(self._own_bytes()):
            for number, part in _unpacked(data).items():
                segment = self._segments[number]
                state = whole.setdefault(segment.parameter, {})
                for key, value in part.items():
                    if isinstance(value, torch.Tensor) and value.ndim:
                        shape = segment.parameter.shape
                        segment.write(state.setdefault(key, torch.empty(shape, dtype=value.dtype)), value)
                    else:
                        state[key] = value
        return whole

    def restore(self) -> None:
        """Give the plain optimizer back to the user. All ranks call this together."""
        state = self.state()
        self.remove_hooks()
        for group, parameters in zip(self.optimizer.param_groups, self._groups, strict=True):
            group["params"] = parameters
        self.optimizer.state.clear()
        self.optimizer.state.update(state)

    def remove_hooks(self) -> None:
        for handle in self._handles:
            handle.remove()
        for parameter in self.names:
            if isinstance(parameter.grad, ElsewhereGradient):
                parameter.grad = None

    def _clears(self, parameter: nn.Parameter) -> Callable[[torch.Tensor], None]:
        def clear(_: torch.Tensor) -> None:
            if isinstance(parameter.grad, ElsewhereGradient):
                parameter.grad = None
                self._is_unused = True

        return clear

    def _in_place_of(self, parameters: Sequence[nn.Parameter]) -> Iterator[nn.Parameter]:
        """The parameters that the optimizer updates on this rank instead of those of a group."""
        of: dict[nn.Parameter, list[nn.Parameter]] = {}
        for segment, values in self.own:
            of.setdefault(segment.parameter, []).append(values)
        for parameter in parameters:
            yield from [parameter] if parameter in self.replicated else of.get(parameter, [])

    def _replicated_gradients(self) -> Iterator[torch.Tensor]:
        return (parameter.grad for parameter in self.replicated if parameter.grad is not None)

    def _set_state(self, state: Mapping[torch.Tensor, State]) -> None:
        """Replace the optimizer's state by this rank's part of the plain optimizer's `state`."""
        self.optimizer.state.clear()
        self.optimizer.state.update({key: value for key, value in state.items() if key in self.replicated})
        for segment, values in self.own:
            if state.get(segment.parameter):
                self.optimizer.state[values] = _of_segment(segment, state[segment.parameter])

    def _own_bytes(self) -> bytes:
        """The states of this rank's segments, by number of the segment."""
        own = {segment: self.optimizer.state.get(values, {}) for segment, values in self.own}
        values = {
            f"{number}.{key}": value
            for number, segment in enumerate(self._segments)
            for key, value in own.get(segment, {}).items()
        }
        tensors = {name: value.contiguous() for name, value in values.items() if isinstance(value, torch.Tensor)}
        # A list marks a number; the order of the names is that of the user's optimizer, which the tensors lose.
        names = {name: None if name in tensors else [value] for name, value in values.items()}
        return json.dumps(names).encode() + END_OF_NAMES + save_tensors(tensors)

    def _on_state_dict(self, optimizer: torch.optim.Optimizer, packed: dict[str, Any]) -> dict[str, Any]:
        """The plain optimizer's `state_dict`."""
        del optimizer
        number, numbers = 0, dict[torch.Tensor, int]()
        groups = []
        for settings, parameters in zip(packed["param_groups"], self._groups, strict=True):
            for parameter in parameters:
                numbers[parameter] = number
                number += 1
            groups.append({**settings, "params": [numbers[parameter] for parameter in parameters]})
        state = self.state()
        states = {number: state[parameter] for parameter, number in numbers.items() if parameter in state}
        return {**packed, "state": states, "param_groups": groups}

    def _on_load_state_dict(self, optimizer: torch.optim.Optimizer, given: dict[str, Any]) -> dict[str, Any]:
        """This rank's part of the plain optimizer's `state_dict`. Raises `ValueError` if it has other groups."""
        sizes = [len(group["params"]) for group in given["param_groups"]]
        if sizes != [len(parameters) for parameters in self._groups]:
            raise ValueError(
                "The optimizer's state has other parameter groups than the optimizer; load the state of an optimizer "
                "that was made for the same model."
            )
        state = {
            parameter: given["state"][key]
            for parameters, group in zip(self._groups, given["param_groups"], strict=True)
            for parameter, key in zip(parameters, group["params"], strict=True)
            if key in given["state"]
        }
        segment_of = {values: segment for segment, values in self.own}
        number, parts, groups = 0, dict[int, State](), []
        for group, own in zip(given["param_groups"], optimizer.param_groups, strict=True):
            first = number
            for values in own["params"]:
                segment = segment_of.get(values)
                part = state.get(values if segment is None else segment.parameter)
                if part:
                    parts[number] = part if segment is None else _of_segment(segment, part)
                number += 1
            groups.append({**group, "params": list(range(first, number))})
        return {**given, "state": parts, "param_groups": groups}


def _of_segment(segment: Segment, state: State) -> State:
    """The segment's part of the state of its parameter."""
    return {
        key: segment.of(value).clone()
        if isinstance(value, torch.Tensor) and value.ndim and value.shape == segment.parameter.shape
        else copy.deepcopy(value)
        for key, value in state.items()
    }


def _unpacked(data: bytes) -> dict[int, State]:
    """By number of a segment, the states that `_own_bytes` packed."""
    names, _, packed = data.partition(END_OF_NAMES)
    tensors = load_tensors(packed)
    states: dict[int, State] = {}
    for name, value in json.loads(names).items():
        number, _, key = name.partition(".")
        states.setdefault(int(number), {})[key] = tensors[name] if value is None else value[0]
    return states


def _norm_of(gradients: Sequence[torch.Tensor], norm_type: float) -> torch.Tensor:
    """The joint norm of gradients, as an array of one element in float64."""
    norms = [torch.linalg.vector_norm(gradient.double(), norm_type) for gradient in gradients if gradient.numel()]
    return torch.linalg.vector_norm(torch.stack(norms) if norms else torch.zeros(1).double(), norm_type).reshape(1)
