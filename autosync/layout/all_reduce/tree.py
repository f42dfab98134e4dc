"""Tree all-reduce: a binomial reduce to the first replica, then a binomial broadcast of the mean.

In round k = 0, 1, ... replica r with r mod 2^(k+1) = 2^k sends its partial sum to replica r - 2^k. Then the first
replica has the sum. The mean takes the reverse path, to the farthest replica first. Whole buckets travel: 2(N-1)
messages in 2 ceil(log2 N) rounds.

In 16 bits an element is rounded at most ceil(log2 N) times on its way to the first replica, and once when the mean is
sent: its error is at most about ceil(log2 N) + 1 times that of one message (`wire`) of the largest partial sum.
"""

from autosync.layout.all_reduce import LaidOut
from autosync.layout.moves import Move, Moves
from autosync.layout.topology import Topology


def _moves(topology: Topology, elements: int, _: int) -> Moves:
    distances = [1 << k for k in range((len(topology) - 1).bit_length())]
    return Moves.there_and_back(
        [Move(child, child - far, (0, elements)) for child in range(far, len(topology), 2 * far)] for far in distances
    )


LAID_OUT = LaidOut(_moves, differs=lambda cluster: len(cluster.replica_devices) > 2, uneven=lambda _: True)
