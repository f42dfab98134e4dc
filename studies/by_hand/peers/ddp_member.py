"""One rank of PyTorch's DistributedDataParallel over gloo, and of gloo's all-reduce alone.

A rank computes with one thread, as torchrun sets it for several ranks on a machine; with more threads, ranks that share
cores would wait for each other in busy loops. The gradient of a sparse table is made dense after the reduction, so that
Adam computes the same update as in the other systems.
"""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from typing import Any, final

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from studies.by_hand.peers.answering import Question, answer, time_steps, written_bytes
from studies.by_hand.peers.torch_models import TorchTask, torch_task

HOURS = 2


@final
class DdpRank:
    """A rank with one model and its optimizer."""

    def __init__(self) -> None:
        self._task: TorchTask | None = None
        self._wrapped: Any = None
        self._optimizer: Any = None

    def start(self, question: Question) -> None:
        torch.set_num_threads(1)
        distributed.init_process_group(
            "gloo",
            init_method=f"tcp://{question['host']}:{question['port']}",
            rank=question["rank"],
            world_size=question["size"],
            timeout=timedelta(hours=HOURS),
        )

    def load(self, question: Question) -> dict[str, Any]:
        """Build the model again; return the number of elements of each variable."""
        self._task = torch_task(question["task"], question["sparse"])
        options = {"bucket_cap_mb": question["bucket_mb"]} if question["bucket_mb"] else {}
        self._wrapped = DistributedDataParallel(self._task.model, **options)
        self._optimizer = self._task.optimizer(self._task.model.parameters())
        return {"elements": [parameter.numel() for parameter in self._task.model.parameters()]}

    def run(self, question: Question) -> dict[str, Any]:
        """Time steps, `alone` or with all-reduced gradients."""
        return time_steps(lambda: self._step(question["alone"]), question)

    def reduce(self, question: Question) -> dict[str, Any]:
        """Time all-reduces of `bytes` of float32."""
        tensor = torch.zeros(question["bytes"] // 4)

        def step() -> float:
            distributed.all_reduce(tensor)
            return float(tensor[0])

        return time_steps(step, question)

    def _step(self, alone: bool) -> float:
        assert self._task is not None
        inputs, targets = self._task.batch()
        self._optimizer.zero_grad(set_to_none=True)
        with self._wrapped.no_sync() if alone else nullcontext():
            loss = self._task.loss(self._wrapped(*inputs), targets)
            loss.backward()
        for parameter in self._task.model.parameters():
            if parameter.grad.is_sparse:
                parameter.grad = parameter.grad.to_dense()
        self._optimizer.step()
        return float(loss.item())


def main() -> None:
    member = DdpRank()
    answer(
        {
            "start": member.start,
            "load": member.load,
            "run": member.run,
            "reduce": member.reduce,
            "memory": lambda _: written_bytes(),
        }
    )


if __name__ == "__main__":
    main()
