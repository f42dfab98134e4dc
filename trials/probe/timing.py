"""Times one probe: chooses message sizes that suit the link, repeats messages, and computes slopes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trials.probe.flows import ProbeSample

SMALL_BYTES = (1 << 10, 64 << 10)
SMALL_REPEATS = 2
"""Extra small messages on a link that is not slow, because the fit needs one that no other work has lengthened."""
LARGEST_BYTES = 32 << 20
"""The largest message of one flow, in bytes; the transport holds no larger array."""
GROWTH = (2.0, 16.0)
"""The least and the greatest factor from one message size to the next."""

HOPS = 12
MESSAGES = (8, 72)
COPIES = (1, 5)
COPIED_BYTES = 16 << 20
SCALAR_REPEATS = 7
COPY_REPEATS = 3

NEAR = 1.03
"""The largest ratio of the two shortest times at which both count as undisturbed."""

PAUSE_SECONDS = 0.03
"""Seconds of pause before a message whose time counts, so that a shaper's bucket is equally full for each."""


@dataclass(frozen=True)
class FlowTiming:
    """How flows are timed. The largest message is repeated until its two shortest times are close, at best twice."""

    message_seconds: float = 0.1
    """Seconds that the largest message should take."""
    most_repeats: int = 6
    """The largest number of repetitions."""


def time_flows(
    call: Callable[[Sequence[int]], float],
    weights: Sequence[float],
    timing: FlowTiming,
    pause: Callable[[float], None] = time.sleep,
) -> list[ProbeSample]:
    """Return samples of a probe whose flows send in proportion to `weights`.

    Small messages come first, then growing ones, and then, in turns, the largest message and its half. Sizes grow until
    a message takes `message_seconds`, so that a slow link is not busy for long, and a fast link is busy long enough to
    measure its rate.
    """
    whole = sum(weights)
    shares = [weight / whole for weight in weights]
    limit = int(LARGEST_BYTES / max(shares))

    def sample(probe_bytes: int) -> ProbeSample:
        sizes = [max(int(share * probe_bytes) // 4 * 4, 4) for share in shares]
        seconds = call(sizes)
        return ProbeSample(sum(sizes), seconds)

    sample(SMALL_BYTES[0])  # the first call traces the function
    samples = [sample(size) for size in SMALL_BYTES]
    size = SMALL_BYTES[-1]
    if samples[-1].seconds < timing.message_seconds:
        samples += [sample(size) for _ in range(SMALL_REPEATS)]
    least = min(samples, key=lambda small: small.seconds).seconds
    while size < limit:
        if samples[-1].seconds - least >= timing.message_seconds / 2:
            samples.append(sample(size))  # other work may have lengthened the previous message
            if samples[-1].seconds - least >= timing.message_seconds / 2:
                break
        growth = timing.message_seconds / max(samples[-1].seconds - least, 1e-6)
        size = min(int(size * min(max(growth, GROWTH[0]), GROWTH[1])), limit)
        samples.append(sample(size))
    if (last := samples[-1].probe_bytes) > SMALL_BYTES[-1]:
        # Connections may still have been warming up, so the last size is discarded here and measured again below.
        samples = [earlier for earlier in samples if earlier.probe_bytes < last]
    halves: list[ProbeSample] = []
    wholes: list[ProbeSample] = []
    while len(wholes) < timing.most_repeats and not (_is_settled(halves) and _is_settled(wholes)):
        for part, members in ((size // 2, halves), (size, wholes)):
            pause(PAUSE_SECONDS)
            members.append(sample(part))
    return [*samples, *halves, *wholes]


def _is_settled(samples: Sequence[ProbeSample]) -> bool:
    shortest = sorted(sample.seconds for sample in samples)[:2]
    return len(shortest) == 2 and shortest[1] <= NEAR * shortest[0]


def hop_us(hops: Callable[[int], Callable[[], float]]) -> float:
    """Return alpha: microseconds of one scalar's way, as the mean over both directions.

    The two directions cannot be separated without a common clock. The time of the function call is also in the calls
    without hops, so it is subtracted.
    """
    return _slope(hops, (0, HOPS), SCALAR_REPEATS) * 1e6


def message_us(messages: Callable[[int], Callable[[], float]]) -> float:
    """Return the microseconds that one more message adds when many are under way."""
    return _slope(messages, MESSAGES, SCALAR_REPEATS) * 1e6


def copy_gbit_per_s(copies: Callable[[int, int], Callable[[], float]]) -> float:
    """Return the Gbit of an array that are copied in a second (each bit is read once and written once)."""
    return COPIED_BYTES * 8e-9 / _slope(lambda count: copies(COPIED_BYTES, count), COPIES, COPY_REPEATS)


def _slope(build: Callable[[int], Callable[[], float]], counts: tuple[int, int], repeats: int) -> float:
    """Return the seconds that one more item adds, from the shortest times; the two kinds of calls alternate."""
    few, many = (build(count) for count in counts)
    for call in (few, many):
        call()
    turns = [(few(), many()) for _ in range(repeats)]
    least, most = (min(seconds) for seconds in zip(*turns, strict=True))
    # If noise hides the difference, the whole time of the longer call gives at least the scale.
    return max((most - least) / (counts[1] - counts[0]), most / counts[1] / 20)
