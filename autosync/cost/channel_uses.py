"""Channel uses of buckets, parcels and single shards: the bytes they send and the cost of encoding them.

Notation: N replicas, b bytes and E elements of a gradient, of i bytes each; k the elements that top-k keeps; M x N
matrices; r PowerSGD's rank; K the rows of sufficient factors.

Work is counted in bytes, as for an addition that reads them. The following figures are assumptions, which calibration
only scales together; the first two were measured with TensorFlow on one processor, as multiples of an addition's time.
A cast, at either end of every message, is `CAST_PASSES` over the gradient. Top-k selection with error feedback is `8 +
800 ratio` passes. A flop of a thin product counts as `BYTES_A_FLOP` (the ratio of the default coefficients). PowerSGD
takes 6 M N r + 2 M r^2 flops (two products, one more to decode, an orthogonalization), and `POWER_SGD_PASSES` passes
over the gradient for error feedback. The product of the sufficient factors takes 2 K M N flops for each replica that
sent factors.
"""

from collections.abc import Sequence
from typing import NamedTuple

from autosync.layout.channels import Channel
from autosync.layout.coding import (
    CAST_BYTES,
    INDEX_BYTES,
    bytes_when_encoded,
    cast_bytes,
    factor_bytes,
    power_sgd_bytes,
)
from autosync.layout.exchange import Quantities
from autosync.layout.factor_messages import are_small, factor_messages
from autosync.layout.fusion import as_ready
from autosync.layout.shards import Shard
from autosync.spec import AllReduce, Cast, ParameterServer, PowerSGD, TopK
from autosync.spec.algorithms import CHUNKED

CAST_PASSES = 0.5
POWER_SGD_PASSES = 4.0
BYTES_A_FLOP = 1 / 3
CODING: Channel = ("coding", "", False)
ALL_GATHER: Channel = ("all_gather", "", False)


class Use(NamedTuple):
    """A use of one channel, with its quantities. The uses of one shard or bucket follow one another."""

    channel: Channel
    quantities: Quantities


def uses_of(together: Sequence[Shard], replicas: int) -> list[Use]:
    """The uses of shards that travel together, in a bucket or a parcel, or of a single shard."""
    synchronizer = together[0].synchronizer
    if together[0].variable.sparse:
        return _row_uses(together[0])
    if isinstance(synchronizer, AllReduce):
        return _bucket_uses(synchronizer, together, replicas)
    return _server_uses(synchronizer, together, replicas)


def _bucket_uses(synchronizer: AllReduce, shards: Sequence[Shard], replicas: int) -> list[Use]:
    compressor = synchronizer.compressor
    algorithm: Channel = (synchronizer.algorithm, "", False)
    size, pieces = sum(shard.slice.weighs.held_bytes for shard in shards), 1.0
    if synchronizer.algorithm in CHUNKED:
        pieces = min(1.0, size / shards[0].slice.item_bytes / replicas)
    if compressor is None:
        return [Use(algorithm, Quantities(size, 0.0, size, size, pieces, 0.0, size))]
    whole = _whole(shards)
    held = Quantities(held_bytes=whole, pieces=pieces, gradient_bytes=whole)
    if isinstance(compressor, Cast):
        ends = 2 * (2 * (replicas - 1) / replicas)  # buckets that a replica sends on average, and as many received
        scales = pieces if compressor.dtype == "fp16" else 0.0
        cast = Use(algorithm, held._replace(payload_bytes=cast_bytes(shards), touched_bytes=whole, scales=scales))
        return [cast, _coding(ends * CAST_PASSES * whole)]
    if isinstance(compressor, TopK):
        return [*_top_k_uses(compressor, shards, held, algorithm, replicas), _coding(_top_k_passes(compressor) * whole)]
    if isinstance(compressor, PowerSGD):
        left, right = power_sgd_bytes(compressor, shards)
        uses = [Use(algorithm, held._replace(payload_bytes=left, touched_bytes=left))]
        if right:
            uses.append(Use(algorithm, Quantities(right, touched_bytes=right, pieces=pieces)))
        return [*uses, _coding(_power_sgd_work(compressor, shards))]
    factors, ready = sum(map(factor_bytes, shards)), as_ready([shards])[0]
    parts = (ready[message.start : message.stop] for message in factor_messages(ready))
    messages = sum(1.0 if are_small(part) else 2.0 for part in parts)
    return [
        Use(ALL_GATHER, held._replace(payload_bytes=factors, pieces=messages)),
        _coding(replicas * _product_work(shards)),
    ]


def _server_uses(synchronizer: ParameterServer, shards: Sequence[Shard], replicas: int) -> list[Use]:
    """The uses of dense shards on a server; several shards only if gradients are sent as they are, or cast."""
    compressor, device, whole = synchronizer.compressor, synchronizer.device, _whole(shards)
    held = Quantities(touched_bytes=whole, held_bytes=whole, gradient_bytes=whole)
    dense: Channel = ("dense_server", device, synchronizer.local_copy)
    if compressor is None:
        return [Use(dense, held._replace(payload_bytes=whole))]
    pull = Use(("pull", device, synchronizer.local_copy), held)
    if isinstance(compressor, Cast):
        scales = 1.0 if compressor.dtype == "fp16" else 0.0
        cast = Use(dense, held._replace(payload_bytes=cast_bytes(shards), scales=scales))
        return [cast, _coding(CAST_PASSES * whole), _server_coding(device, replicas * CAST_PASSES * whole)]
    if isinstance(compressor, PowerSGD):
        if compressor.matrix(shards[0].shape) is None:
            return [Use(dense, held._replace(payload_bytes=whole))]
        left, right = power_sgd_bytes(compressor, shards)
        push: Channel = ("push", device, False)
        return [
            pull,
            Use(push, Quantities(left, touched_bytes=left)),
            Use(("send_back", device, False), Quantities(left)),
            Use(push, Quantities(right, touched_bytes=right)),
            _coding(_power_sgd_work(compressor, shards)),
        ]
    direct, sent = ("own_push", device, False), bytes_when_encoded(shards[0])
    if isinstance(compressor, TopK):
        pushed = Use(direct, Quantities(sent, touched_bytes=sent, pieces=2.0))
        return [pull, pushed, _coding(_top_k_passes(compressor) * whole), _server_coding(device, whole)]
    return [pull, Use(direct, Quantities(sent, pieces=2.0)), _server_coding(device, replicas * _product_work(shards))]


def _row_uses(shard: Shard) -> list[Use]:
    """The uses of touched rows. A cast applies to their gradients, but not to row numbers and pulled rows."""
    compressor, rows = shard.synchronizer.compressor, shard.slice.weighs
    if compressor is None:
        return [Use(shard.channel, rows)]
    sent = rows.payload_bytes * CAST_BYTES / shard.slice.item_bytes
    scales = 1.0 if isinstance(compressor, Cast) and compressor.dtype == "fp16" else 0.0
    return [
        Use(shard.channel, rows._replace(payload_bytes=sent, scales=scales)),
        _coding(2 * CAST_PASSES * rows.touched_bytes),
    ]


def _whole(shards: Sequence[Shard]) -> float:
    return float(sum(shard.slice.bytes for shard in shards))


def _top_k_uses(
    compressor: TopK, shards: Sequence[Shard], held: Quantities, algorithm: Channel, replicas: int
) -> list[Use]:
    kept = compressor.kept(sum(shard.elements for shard in shards))
    values, indices = float(kept * shards[0].slice.item_bytes), float(kept * INDEX_BYTES)
    if compressor.indices == "own":
        pairs = values + indices
        return [Use(ALL_GATHER, held._replace(payload_bytes=pairs, touched_bytes=pairs, pieces=2.0))]
    # In each step one replica sends its indices to all others: in turns, or chosen by the data. So on average each
    # replica sends in one of N steps.
    uses = [Use(ALL_GATHER, Quantities(indices / replicas, pieces=1 / replicas))]
    if compressor.indices == "var":
        uses.insert(0, Use(ALL_GATHER, Quantities(float(INDEX_BYTES))))  # one float32 per replica, to compare
    pieces = min(held.pieces, kept / replicas)
    return [*uses, Use(algorithm, held._replace(payload_bytes=values, touched_bytes=values, pieces=pieces))]


def _top_k_passes(compressor: TopK) -> float:
    return 8 + 800 * compressor.ratio


def _power_sgd_work(compressor: PowerSGD, shards: Sequence[Shard]) -> float:
    total, rank = 0.0, compressor.rank
    for shard in shards:
        matrix = compressor.matrix(shard.shape)
        if matrix:
            flops = 6 * shard.elements * rank + 2 * matrix[0] * rank**2
            total += POWER_SGD_PASSES * shard.slice.bytes + BYTES_A_FLOP * flops
    return total


def _product_work(shards: Sequence[Shard]) -> float:
    """The work of multiplying out the sufficient factors of one replica."""
    return BYTES_A_FLOP * sum(2.0 * (shard.variable.factor_rows or 0) * shard.elements for shard in shards)


def _coding(worked_bytes: float) -> Use:
    """The use of the channel that stands for work on every replica."""
    return Use(CODING, Quantities(touched_bytes=worked_bytes))


def _server_coding(server: str, worked_bytes: float) -> Use:
    return Use(("server_coding", server, False), Quantities(touched_bytes=worked_bytes))
