"""A user's own script under torchrun: trained like one process, killed and resumed, told of lost ranks."""

from __future__ import annotations

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import autosync.torch
from tests.cases import rack_cluster

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "torch_digits.py"
RANKS = 3

LOOP = """
import os, sys, torch, autosync.torch
torch.set_num_threads(1)
linear, seconds = torch.nn.Linear(300, 300), float(sys.argv[2])
model = autosync.torch.distribute(linear, "byteps", transport=sys.argv[1], timeout_seconds=seconds)
for step in range(10**9):
    model(torch.ones(2, 300)).sum().backward()
    if step == 20:
        print("runs", flush=True)
"""


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def torchrun(folder: Path, *arguments: str, ranks: int = 2) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=200, check=False
    )


def digits(folder: Path, strategy: str, epochs: int) -> dict[str, torch.Tensor]:
    """The parameters after the example has trained in `folder`, which may hold a checkpoint."""
    done = torchrun(folder, str(EXAMPLE), strategy, str(epochs))
    assert done.returncode == 0, done.stderr
    return saved(folder)


def saved(folder: Path) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = torch.load(folder / "digits.pt", weights_only=True)["model"]
    return state


def digits_on_one_process(epochs: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    images, labels = (torch.tensor(array) for array in load_digits(return_X_y=True))
    for epoch in range(epochs):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        for batch in order.split(128)[:-1]:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[batch].float() / 16), labels[batch]).backward()
            optimizer.step()
    return model.state_dict()


def test_the_transformer_of_the_examples_learns_as_in_one_process(tmp_path: Path) -> None:
    script = ROOT / "examples" / "torch_transformer.py"
    done = torchrun(tmp_path, str(script), "byteps", "40")
    assert done.returncode == 0, done.stderr
    losses = [float(line.split()[-1]) for line in done.stdout.splitlines()]

    example = runpy.run_path(str(script))
    model, loss_function, _, optimizer = example["build"]()
    text, generators = example["read_text"](), [torch.Generator().manual_seed(1 + rank) for rank in range(2)]
    expected = []
    for _ in range(40):
        optimizer.zero_grad()
        for generator in reversed(generators):
            inputs, targets = example["draw_batch"](text, generator)
            loss = loss_function(model(inputs), targets)
            (loss / 2).backward()
        optimizer.step()
        expected.append(loss.item())  # that of rank 0
    assert losses == pytest.approx([expected[19], expected[39]], abs=2e-3)
    assert losses[1] < losses[0] - 0.1


def test_the_example_trains_like_one_process_and_resumes_to_the_bit(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    whole = digits(tmp_path / "whole", "byteps", 3)
    digits(tmp_path / "parts", "byteps", 1)
    resumed = digits(tmp_path / "parts", "byteps", 3)
    for name, value in digits_on_one_process(3).items():
        assert torch.equal(resumed[name], whole[name])
        assert torch.allclose(whole[name], value, atol=2e-4), name  # float32, amplified by Adam's division


BOTH = """
import torch, autosync.torch
for transport in ("sockets", "gloo"):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(30, 20), torch.nn.Tanh(), torch.nn.Linear(20, 1))
    autosync.torch.distribute(model, "byteps", transport=transport)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(5):
        optimizer.zero_grad()
        model(torch.full((2, 30), 1.0 + step + torch.distributed.get_rank())).sum().backward()
        optimizer.step()
    torch.save(model.state_dict(), f"{transport}-{torch.distributed.get_rank()}.pt")
"""


def test_gloo_trains_to_the_bits_of_sockets(tmp_path: Path) -> None:
    (tmp_path / "both.py").write_text(BOTH)
    done = torchrun(tmp_path, "both.py")
    assert done.returncode == 0, done.stderr
    first, *others = (torch.load(file, weights_only=True) for file in sorted(tmp_path.glob("*.pt")))
    assert len(others) == 3
    for state in others:
        assert all(torch.equal(state[name], value) for name, value in first.items())


def test_the_example_killed_in_mid_training_resumes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(EXAMPLE), "byteps", "9999"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("epoch 2:"):
                break
        process.send_signal(signal.SIGTERM)  # torchrun ends its ranks
        process.wait(60)
    epochs = torch.load(tmp_path / "digits.pt", weights_only=True)["epochs"]
    done = torchrun(tmp_path, str(EXAMPLE), "all_reduce_25mb", str(epochs + 1))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"epoch {epochs + 1}: ")


@pytest.fixture
def ranks(request: pytest.FixtureRequest) -> Iterator[list[subprocess.Popen[str]]]:
    """Ranks in the middle of training, without torchrun, which would end them all as soon as one ends."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    shared = environment() | {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", LOOP, *request.param],
            env=shared | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
    yield started
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("ranks", [("sockets", "600"), ("gloo", "600")], indirect=True)
def test_the_death_of_a_rank_ends_the_others_within_seconds(ranks: list[subprocess.Popen[str]]) -> None:
    ranks[1].kill()
    for rank in (0, 2):
        _, complaint = ranks[rank].communicate(timeout=20)
        assert ranks[rank].returncode == 1
        assert f"Rank {rank} can no longer synchronize gradients: " in complaint.splitlines()[-1]


@pytest.mark.parametrize("ranks", [("sockets", "2"), ("gloo", "2")], indirect=True)
def test_a_rank_that_hangs_is_given_up_after_the_stated_time(ranks: list[subprocess.Popen[str]]) -> None:
    ranks[2].send_signal(signal.SIGSTOP)
    complaints = [ranks[rank].communicate(timeout=30)[1].splitlines()[-1] for rank in (0, 1)]
    assert any("waited 2 seconds for gradients of the other ranks" in complaint for complaint in complaints)
    assert all("TransportError" in complaint for complaint in complaints)
    ranks[2].send_signal(signal.SIGCONT)


REFUSED = {
    "no module": ("3, 'byteps'", "A model is a torch.nn.Module, not int."),
    "no torchrun": ("torch.nn.Linear(2, 2), 'byteps'", "start the script with torchrun"),
    "no file": ("torch.nn.Linear(2, 2), 'none.json'", "Strategy file 'none.json' cannot be read"),
    "bad transport": ("torch.nn.Linear(2, 2), 'byteps', transport='mpi'", "No transport is called 'mpi'"),
    "no baseline": ("torch.nn.Linear(2, 2), 'bytesps'", "'bytesps' is neither a strategy file nor a baseline; the"),
    "bad option": ("torch.nn.Linear(2, 2), 'byteps', unused='skip'", "unused is 'error' or 'zeros', not 'skip'."),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_calls_get_one_sentence(case: str) -> None:
    call, sentence = REFUSED[case]
    code = f"import torch, autosync.torch\nautosync.torch.distribute({call})"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert sentence in done.stderr.splitlines()[-1]


def test_the_cluster_is_that_of_the_search_beside_the_strategy_file(tmp_path: Path) -> None:
    (tmp_path / "strategy.json").write_text("{}")
    assert autosync.torch._cluster_of_search(tmp_path / "strategy.json") is None
    (tmp_path / "run.json").write_text(json.dumps({"cluster": rack_cluster().to_json()}))
    assert autosync.torch._cluster_of_search(tmp_path / "strategy.json") == rack_cluster()
    assert autosync.torch._cluster_of_search(tmp_path / "byteps") is None, "the name of a baseline"
