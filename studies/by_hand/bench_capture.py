"""Time and memory of capturing PyTorch modules on one core.

    python -m studies.by_hand.bench_capture --repeat 3

Captures and profiles bert-mini and a transformer of 100 million parameters, each in a process of its own, and writes
the captured module to bytes, as the commands do; then takes a training step for comparison. Prints for each of these
phases its seconds, processor seconds, and the peak of resident memory, in MB and as a multiple of the parameters. The
memory before the first phase, which has the module itself, does not count.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import torch
import torch.nn.functional as F
from torch import nn

from autosync.engine.pytorch.capture import capture, profile
from autosync.zoo import build_task

WIDTH, LAYERS, VOCABULARY = 768, 12, 20_000
EXAMPLES, LENGTH = 4, 32
"""Sequences of a batch, and tokens of a sequence."""

LARGE = "studies.by_hand.bench_capture:transformer_100m"


class Transformer(nn.Module):
    """An encoder of the size of BERT base, with a tied output layer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 12, 4 * WIDTH, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return F.linear(self.encoder(self.tokens(tokens)), self.tokens.weight)


def transformer_100m() -> Any:
    module = Transformer()
    tokens = torch.randint(VOCABULARY, (EXAMPLES, LENGTH))
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-4, fused=True)
    return module, _loss, (tokens, tokens), optimizer


def _loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


@click.command()
@click.option("--model", "models", multiple=True, default=("bert-mini", LARGE), show_default=True)
@click.option("--repeat", default=1, show_default=True, help="Processes per model.")
@click.option("--one", is_flag=True, hidden=True)
def main(models: tuple[str, ...], repeat: int, one: bool) -> None:
    """Print seconds and memory of each phase."""
    if one:
        sys.stdout.write(json.dumps(measure(models[0])))
        return
    for model in models:
        for _ in range(repeat):
            command = [sys.executable, "-m", "studies.by_hand.bench_capture", "--one", "--model", model]
            result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            model_bytes = result["bytes"]
            print(f"{model}: {model_bytes / 1e6:.1f} MB of parameters")
            for phase, (seconds, processor, extra) in result["phases"].items():
                print(
                    f"  {phase:8} {seconds:6.2f} s, {processor:6.2f} s of processor, "
                    f"{extra / 1e6:7.1f} MB more at the peak, {extra / model_bytes:.2f} x"
                )


def measure(model: str) -> dict[str, Any]:
    """Capture `model` on one core of this process; seconds and bytes beyond the present memory, by phase."""
    torch.set_num_threads(1)
    task: Any = build_task(model, framework="pytorch")
    nn.Linear(8, 8)(torch.ones(1, 8)).sum().backward()  # loads the libraries
    phases: dict[str, tuple[float, float, int]] = {}
    start = _memory("VmRSS")

    @contextmanager
    def phase(name: str) -> Iterator[None]:
        Path("/proc/self/clear_refs").write_text("5")  # sets the peak to the present memory
        began, used = time.perf_counter(), time.process_time()
        yield
        phases[name] = time.perf_counter() - began, time.process_time() - used, _memory("VmHWM") - start

    with phase("capture"):
        captured = capture(task)
    del task
    with phase("profile"):
        captured = profile(captured)
    with phase("to bytes"):
        captured.to_bytes()
    task = captured.task
    with phase("step"):
        task.loss_on(task.batch).backward()
        task.optimizer.step()
    return {"bytes": sum(variable.bytes for variable in captured.spec.variables), "phases": phases}


def _memory(field: str) -> int:
    """A field of this process's memory, in bytes."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split(f"{field}:")[1].split()[0])


if __name__ == "__main__":
    main()
