"""Timing one probe: message sizes that suit the link, repeats, slopes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from trials.probe.flows import Sample

SMALL_BYTES = (1 << 10, 64 << 10)
SMALL_REPEATS = 2
"""More small messages on a link that is not slow: the fit needs one that no other work has lengthened."""
LARGEST_BYTES = 32 << 20
"""The most bytes of one flow's message; the transport holds no larger array."""
GROWTH = (2.0, 16.0)
"""How many times as large the next message is, at least and at most."""

HOPS = 12
MESSAGES = (8, 72)
COPIES = (1, 5)
COPIED_BYTES = 16 << 20
SCALAR_REPEATS = 7
COPY_REPEATS = 3

NEAR = 1.03
"""The largest ratio of the two shortest times at which both are taken for clean."""

PAUSE_SECONDS = 0.03
"""Seconds of pause before a message whose time counts: a shaper's bucket is then as full for each of them."""


@dataclass(frozen=True)
class FlowTiming:
    """How flows are timed: the seconds that the largest message should take, and how often it is sent at most.

    It is sent until the two shortest times are near each other, which where nothing else runs takes two.
    """

    message_seconds: float = 0.1
    most_repeats: int = 6


def time_flows(
    call: Callable[[Sequence[int]], float],
    weights: Sequence[float],
    timing: FlowTiming,
    pause: Callable[[float], None] = time.sleep,
) -> list[Sample]:
    """Samples of a probe whose flows send in proportion to `weights`: small messages, growing ones, and then, in turns,
    the largest and its half.

    Sizes grow until a message takes `message_seconds`, so that a slow link is not kept busy for long, and a fast one
    long enough for its rate to show.
    """
    whole = sum(weights)
    shares = [weight / whole for weight in weights]
    limit = int(LARGEST_BYTES / max(shares))

    def sample(probe_bytes: int) -> Sample:
        sizes = [max(int(share * probe_bytes) // 4 * 4, 4) for share in shares]
        seconds = call(sizes)
        return Sample(sum(sizes), seconds)

    sample(SMALL_BYTES[0])  # sets the function up
    samples = [sample(size) for size in SMALL_BYTES]
    size = SMALL_BYTES[-1]
    if samples[-1].seconds < timing.message_seconds:
        samples += [sample(size) for _ in range(SMALL_REPEATS)]
    least = min(samples, key=lambda small: small.seconds).seconds
    while size < limit:
        if samples[-1].seconds - least >= timing.message_seconds / 2:
            samples.append(sample(size))  # other work may have lengthened the first one
            if samples[-1].seconds - least >= timing.message_seconds / 2:
                break
        growth = timing.message_seconds / max(samples[-1].seconds - least, 1e-6)
        size = min(int(size * min(max(growth, GROWTH[0]), GROWTH[1])), limit)
        samples.append(sample(size))
    if (last := samples[-1].probe_bytes) > SMALL_BYTES[-1]:
        # Connections may still have been warming up; the same size follows.
        samples = [earlier for earlier in samples if earlier.probe_bytes < last]
    halves: list[Sample] = []
    wholes: list[Sample] = []
    while len(wholes) < timing.most_repeats and not (_settled(halves) and _settled(wholes)):
        for part, members in ((size // 2, halves), (size, wholes)):
            pause(PAUSE_SECONDS)
            members.append(sample(part))
    return [*samples, *halves, *wholes]


def _settled(samples: Sequence[Sample]) -> bool:
    shortest = sorted(each.seconds for each in samples)[:2]
    return len(shortest) == 2 and shortest[1] <= NEAR * shortest[0]


def hop_us(hops: Callable[[int], Callable[[], float]]) -> float:
    """Alpha: microseconds of one scalar's way, the mean over both directions.

    One way cannot be told from the other without a common clock. The time of calling the function is in the
    calls without hops too, and so is subtracted.
    """
    return _slope(hops, (0, HOPS), SCALAR_REPEATS) * 1e6


def message_us(messages: Callable[[int], Callable[[], float]]) -> float:
    """Microseconds that one more message adds when many are under way."""
    return _slope(messages, MESSAGES, SCALAR_REPEATS) * 1e6


def copy_gbit_per_s(copies: Callable[[int, int], Callable[[], float]]) -> float:
    """Gbit of an array that are copied in a second (each is read once and written once)."""
    return COPIED_BYTES * 8e-9 / _slope(lambda count: copies(COPIED_BYTES, count), COPIES, COPY_REPEATS)


def _slope(build: Callable[[int], Callable[[], float]], counts: tuple[int, int], repeats: int) -> float:
    """Seconds that one more of what is built adds, from the shortest times; the two kinds of calls take turns."""
    few, many = (build(count) for count in counts)
    for call in (few, many):
        call()
    turns = [(few(), many()) for _ in range(repeats)]
    least, most = (min(seconds) for seconds in zip(*turns, strict=True))
    # Where noise hides the difference, the whole time of the longer call tells at least the scale.
    return max((most - least) / (counts[1] - counts[0]), most / counts[1] / 20)


class Transport(Protocol):
    """Builds calls that move data between devices (named as `Device` is) and return their seconds.

    The first call of each is not to be counted. Calls may be made from several threads at once, and raise
    `ClusterError` when a device cannot be reached. `autosync.engine.transfer.Transfers` says what each one does.
    """

    def flows(self, pairs: Sequence[tuple[str, str]]) -> Callable[[Sequence[int]], float]:
        """A call that sends along every (source, target) at once as many bytes as it is told for each."""
        ...

    def hops(self, source: str, target: str, count: int) -> Callable[[], float]:
        """A call that sends a scalar back and forth, `count` times one after the other."""
        ...

    def messages(self, source: str, target: str, count: int) -> Callable[[], float]:
        """A call that sends `count` scalars at once."""
        ...

    def copies(self, device: str, array_bytes: int, count: int) -> Callable[[], float]:
        """A call that copies an array `count` times within `device`."""
        ...
