"""The PyTorch engine under test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, final

import pytest
import torch
from torch import nn

from autosync.engine.core.contract import Session
from autosync.engine.pytorch.local_transport import LocalTransport
from autosync.engine.pytorch.task import ModuleTask, build_task
from autosync.engine.pytorch.transport import Action, Tag
from autosync.numeric import AnyArray
from autosync.spec import Strategy
from tests.engine.contracts.nets import Net, loss
from tests.engine.contracts.subject import Case, Subject

OPTIMIZERS: dict[str, Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]] = {
    "sgd": partial(torch.optim.SGD, lr=0.125),
    "momentum": partial(torch.optim.SGD, lr=0.125, momentum=0.75),
    "adam": partial(torch.optim.Adam, lr=0.01, eps=1e-6),
    "adagrad": partial(torch.optim.Adagrad, lr=0.125, initial_accumulator_value=0.1),
    "diverging": partial(torch.optim.SGD, lr=1e30),
}


class Operations:
    """`nets.Operations` by PyTorch."""

    matmul, tanh, mean = staticmethod(torch.matmul), staticmethod(torch.tanh), staticmethod(torch.mean)
    reshape, transpose = staticmethod(torch.reshape), staticmethod(torch.t)

    def conv(self, images: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
        return nn.functional.conv2d(images.permute(0, 3, 1, 2), kernel.permute(3, 2, 0, 1)).permute(0, 2, 3, 1)

    def like(self, array: AnyArray, values: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(array).to(values.dtype)

    def rows(self, table: torch.Tensor, numbers: torch.Tensor, is_sparse: bool) -> torch.Tensor:
        return nn.functional.embedding(numbers, table, sparse=is_sparse)


OPERATIONS = Operations()


class Module(nn.Module):
    """A whole model in one module."""

    def __init__(self, net: Net, dtype: str) -> None:
        super().__init__()
        self.net = net
        for name, value in net.values(dtype).items():
            self.register_parameter(name, nn.Parameter(torch.from_numpy(value)))

    def forward(self, inputs: torch.Tensor) -> Any:
        return self.net.forward(OPERATIONS, dict(self.named_parameters()), inputs)


def _parts(case: Case) -> Any:
    module = Module(case.net, case.dtype)
    inputs, targets = map(torch.from_numpy, case.net.batch(case.dtype))
    return module, partial(loss, OPERATIONS), (inputs, targets), OPTIMIZERS[case.optimizer](module.parameters())


def __getattr__(name: str) -> Callable[[], Any]:
    """The function that builds a case, by a name such as `common_rows__adam__float64`, for `build_task`."""
    net, _, rest = name.partition("__")
    optimizer, _, dtype = rest.partition("__")
    if not net or not dtype:
        raise AttributeError(name)
    return partial(_parts, Case(net.replace("_", " "), optimizer, dtype))


@final
class PyTorchSubject(Subject):
    name = "pytorch"
    prefix = ""

    def task(self, case: Case, replicas: int) -> ModuleTask:
        del replicas
        net = case.name.replace(" ", "_")
        return build_task(f"{__name__}:{net}__{case.optimizer}__{case.dtype}", case.name)

    def reference(self, case: Case, replicas: int, steps: int) -> dict[str, AnyArray]:
        task = self.task(case, replicas)
        for step in range(steps):
            inputs, targets = map(torch.from_numpy, case.net.whole_batch(case.dtype, step, replicas))
            task.optimizer.zero_grad()
            task.loss_on((inputs, targets)).backward()
            task.optimizer.step()
        return {name: parameter.detach().numpy() for name, parameter in task.parameters.items()}

    def sent(self, patch: pytest.MonkeyPatch, session: Session, strategy: Strategy) -> Counter[tuple[str, str]]:
        """The bytes of all messages."""
        devices, sent = [str(device) for device in session.cluster.replica_devices], Counter[tuple[str, str]]()
        send = LocalTransport.send

        def count(own: LocalTransport, peer: int, tag: Tag, data: memoryview, priority: float, then: Action) -> None:
            sent[devices[own.rank], devices[peer]] += len(data)
            send(own, peer, tag, data, priority, then)

        step = session.realize(strategy)
        patch.setattr(LocalTransport, "send", count)
        step()
        return sent
