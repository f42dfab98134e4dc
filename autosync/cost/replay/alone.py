"""How long an exchange takes that has a cluster to itself."""

from collections.abc import Sequence

import numpy as np

from autosync.cost.capacity import Resources
from autosync.cost.coefficients import ReplayCoefficients
from autosync.cost.replay.parts import PartMaker
from autosync.cost.replay.queues import Tasks, replayed
from autosync.layout.exchange import Quantities, Stage
from autosync.spec import ClusterSpec


def exchange_seconds(
    cluster: ClusterSpec, stages: Sequence[Stage], payload_bytes: float, coefficients: ReplayCoefficients
) -> float:
    """Seconds of stages that follow one another, with so many bytes of payload."""
    maker = PartMaker(Resources(cluster), ())
    parts = [maker.of_stage(stage) for stage in stages]
    if not parts:
        return 0.0
    quantities = np.array(Quantities(payload_bytes=payload_bytes))
    costed = [maker.costed(part, coefficients) for part in parts]
    count = len(parts)
    tasks = Tasks(
        places=maker.resources.count,
        patterns=[part.pattern for part in parts],
        pattern_of=range(count),
        seconds=[(quantities @ each.busy).tolist() for each in costed],
        chain=np.array(
            [part.latency_seconds + quantities @ each.chain for part, each in zip(parts, costed, strict=True)]
        ),
        rank=range(count),
        line=range(count),
        successors=[*([each + 1] for each in range(count - 1)), []],
        waits_for=[0, *[1] * (count - 1)],
    )
    return float(replayed(tasks).end.max())
