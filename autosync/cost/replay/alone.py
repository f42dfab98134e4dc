"""The duration of a single exchange on an idle cluster."""

from collections.abc import Sequence

import numpy as np

from autosync.cost.capacity import ResourceColumns
from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.replay.parts import PartMaker
from autosync.cost.replay.queues import Tasks, replay_tasks
from autosync.layout.exchange import Quantities, Stage
from autosync.spec import ClusterSpec


def exchange_seconds(
    cluster: ClusterSpec, stages: Sequence[Stage], payload_bytes: float, coefficients: ReplayCoefficients
) -> float:
    """Seconds of consecutive stages with `payload_bytes` bytes of payload."""
    maker = PartMaker(ResourceColumns(cluster), ())
    parts = [maker.of_stage(stage) for stage in stages]
    if not parts:
        return 0.0
    quantities = np.array(Quantities(payload_bytes=payload_bytes))
    costs = [maker.cost(part, coefficients) for part in parts]
    count = len(parts)
    tasks = Tasks(
        places=maker.resources.count,
        patterns=[part.pattern for part in parts],
        pattern_of=range(count),
        seconds=[(quantities @ cost.busy).tolist() for cost in costs],
        chain=np.array(
            [part.latency_seconds + quantities @ cost.chain for part, cost in zip(parts, costs, strict=True)]
        ),
        rank=range(count),
        line=range(count),
        successors=[*([task + 1] for task in range(count - 1)), []],
        waits_for=[0, *[1] * (count - 1)],
    )
    return float(replay_tasks(tasks).end.max())
