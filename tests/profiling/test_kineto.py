"""Profiles from traces of PyTorch's profiler: a real trace of this machine, and a trace in the form of a GPU's."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

from autosync.commands.import_dataset import main as import_main
from autosync.engine.pytorch.capture import capture
from autosync.engine.pytorch.task import build_task
from autosync.errors import SpecError
from autosync.profiling.kineto import profile_from_trace
from autosync.spec import ModelSpec, Variable, read_device_profile

BUILDER = f"{__name__}:build"
STEPS = 3


class Tied(nn.Module):
    """A table that is looked up first and multiplied with last, and layers of equal shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 32)
        self.first = nn.Linear(32, 32)
        self.second = nn.Linear(32, 32)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.second(torch.relu(self.first(self.table(numbers))))
        return hidden @ self.table.weight.T


def build() -> tuple[Any, ...]:
    module = Tied()
    batch = torch.arange(16), torch.arange(16)
    return module, nn.functional.cross_entropy, batch, torch.optim.SGD(module.parameters(), lr=0.1)


def trace(file: Path, shapes: bool = True) -> None:
    """Write the profiler's trace of some steps."""
    task = build_task(BUILDER)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=STEPS),
        record_shapes=shapes,
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(file)),
    ) as profiler:
        for _ in range(1 + STEPS):
            task.optimizer.zero_grad()
            task.loss_on(task.batch).backward()
            task.optimizer.step()
            profiler.step()


@pytest.mark.parametrize(("name", "shapes"), [("trace.json", True), ("trace.json.gz", False)])
def test_a_trace_of_this_machine_gives_the_times_of_all_variables(tmp_path: Path, name: str, shapes: bool) -> None:
    trace(tmp_path / name, shapes)
    model = capture(build_task(BUILDER)).spec
    measured = profile_from_trace(tmp_path / name, model)
    measured.check_fits(model.name, model.batch_size, [variable.name for variable in model.variables])
    assert measured.device.startswith("CPU of ")
    in_order = sorted(model.variables, key=lambda variable: variable.ready_order)
    times = [measured.ready_seconds[variable.name] for variable in in_order]
    assert times == sorted(times)
    assert times[-1] == measured.backward_seconds > 0
    read = measured.read_seconds
    assert read is not None
    assert read["table.weight"] == 0.0 < read["first.weight"] < read["second.weight"] < measured.forward_seconds


def test_the_command_writes_a_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace(tmp_path / "trace.json")
    out = tmp_path / "profile.json"
    assert import_main([str(tmp_path / "trace.json"), "--model", BUILDER, "--out", str(out)]) == 0
    assert read_device_profile(out).batch_size == 16
    assert "16 examples: forward " in capsys.readouterr().out
    assert import_main([str(tmp_path / "trace.json")]) == 2
    assert "A trace needs --model" in capsys.readouterr().err


def host(name: str, at: float, length: float = 1.0, **arguments: Any) -> dict[str, Any]:
    """An operation of the host, in microseconds."""
    return {"ph": "X", "cat": "cpu_op", "name": name, "ts": at, "dur": length, "args": arguments}


def kernel(launched: float, at: float, length: float, name: str = "gemm") -> list[dict[str, Any]]:
    """A kernel and its launch."""
    number = int(launched)
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": launched, "dur": 1.0}
    return [
        launch | {"args": {"correlation": number}},
        {
            "ph": "X",
            "cat": "kernel",
            "name": name,
            "ts": at,
            "dur": length,
            "args": {"correlation": number, "device": 1},
        },
    ]


def accumulated(at: float, *shape: int) -> list[dict[str, Any]]:
    name = "torch::autograd::AccumulateGrad"
    return [
        host(f"autograd::engine::evaluate_function: {name}", at, 2.0),
        host(name, at + 0.5, **{"Input Dims": [list(shape)]}),
    ]


def gpu_step(begin: float) -> list[dict[str, Any]]:
    """Two layers on a GPU that is behind the host: a kernel ends 50 microseconds after the host's last launch."""
    sequence, function = "Sequence number", "autograd::engine::evaluate_function: AddmmBackward0"
    step = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#5", "ts": begin, "dur": 99.0, "args": {}}
    return [
        step,
        *kernel(begin + 1, begin + 2, 1.0, "zero_grad"),
        host("aten::addmm", begin + 10, **{sequence: 7}),
        *kernel(begin + 10, begin + 20, 20.0),
        host("aten::addmm", begin + 12, **{sequence: 8}),
        *kernel(begin + 12, begin + 40, 10.0),
        host(function, begin + 30, **{sequence: 8}),
        *kernel(begin + 30, begin + 60, 30.0),
        *accumulated(begin + 33, 3),
        host(function, begin + 40, **{sequence: 7}),
        *kernel(begin + 40, begin + 95, 45.0),
        *accumulated(begin + 43, 2, 2),
        *kernel(begin + 45, begin + 150, 500.0, "ncclDevKernel_AllReduce"),
        *kernel(begin + 90, begin + 150, 10.0, "adam"),
    ]


TWO_LAYERS = ModelSpec("layers", 4, "sgd", 0, (Variable("a", (2, 2), "float32", 1), Variable("b", (3,), "float32", 0)))


def written(folder: Path, *events: dict[str, Any], **more: Any) -> Path:
    file = folder / "gpu.json"
    file.write_text(json.dumps({"schemaVersion": 1, "traceEvents": list(events)} | more))
    return file


def test_times_on_a_gpu_are_those_of_kernels(tmp_path: Path) -> None:
    devices = [{"id": 0, "name": "other"}, {"id": 1, "name": "NVIDIA H100"}]
    base = 1_790_857_026_000_000_000
    events = [*gpu_step(1000.0), *gpu_step(3000.0)]
    file = written(tmp_path, *events, deviceProperties=devices, baseTimeNanoseconds=base)
    measured = profile_from_trace(file, TWO_LAYERS)
    assert (measured.device, measured.date) == ("NVIDIA H100", "2026-10-01")
    assert measured.forward_seconds == pytest.approx(30e-6)  # kernels from 20 to 50
    assert measured.ready_seconds == pytest.approx({"b": 40e-6, "a": 90e-6})  # kernels that end at 90 and at 140
    assert measured.read_seconds == pytest.approx({"a": 0.0, "b": 20e-6})


WRONG = {
    "no trace": ({"traceEvents": None}, "has no 'traceEvents'"),
    "no step": ({"traceEvents": [host("aten::mm", 1.0)]}, "no training step with a backward pass"),
    "fewer gradients": ({"traceEvents": gpu_step(0.0)[:-9]}, "has 1 gradients in a step, and model 'layers' has 2"),
    "another model": (
        {"traceEvents": [*gpu_step(0.0)[:-8], *accumulated(43.0, 7)]},
        r"a gradient of shape \[7\] more than model 'layers' has",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_other_traces_are_refused_in_a_sentence(tmp_path: Path, case: str) -> None:
    document, sentence = WRONG[case]
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(document))
    with pytest.raises(SpecError, match=sentence):
        profile_from_trace(file, TWO_LAYERS)


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "trace.json.gz"
    file.write_bytes(gzip.compress(b"{}")[:5] + b"damaged")
    with pytest.raises(SpecError, match="gzip archive"):
        profile_from_trace(file, TWO_LAYERS)
