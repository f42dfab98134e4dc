"""Chooses the exchange for a synchronizer and its compressor."""

from autosync.engine.tensorflow.sync.dense import WholeBucket, WholeShard
from autosync.engine.tensorflow.sync.exchange import BucketExchange, BucketPlace, ServerExchange, ServerPlace
from autosync.engine.tensorflow.sync.factors import FactorBucket, FactorShard
from autosync.engine.tensorflow.sync.power_sgd import PowerSGDBucket, PowerSGDShard
from autosync.engine.tensorflow.sync.top_k import OwnTopKBucket, OwnTopKShard, SharedTopKBucket, SwitchedTopKBucket
from autosync.engine.tensorflow.sync.topk_levels import TopKLevels
from autosync.engine.tensorflow.sync.wire import PLAIN, Wire
from autosync.spec import AllReduce, ParameterServer, PowerSGD, SufficientFactors, TopK


def bucket_exchange(place: BucketPlace, levels: TopKLevels) -> BucketExchange:
    """Return the exchange of a bucket. All its shards have the same algorithm and the same compressor."""
    synchronizer = place.shards[0].synchronizer
    assert isinstance(synchronizer, AllReduce)
    algorithm, compressor = synchronizer.algorithm, synchronizer.compressor
    if isinstance(compressor, TopK):
        if levels.transports:
            return SwitchedTopKBucket(place, compressor, levels)
        if compressor.indices == "own":
            return OwnTopKBucket(place, compressor, algorithm, levels)
        return SharedTopKBucket(place, compressor, algorithm, levels)
    if isinstance(compressor, PowerSGD):
        if any(compressor.matrix(shard.shape) for shard in place.shards):
            return PowerSGDBucket(place, compressor, algorithm)
        return WholeBucket(place, algorithm, PLAIN)
    if isinstance(compressor, SufficientFactors):
        return FactorBucket(place)
    return WholeBucket(place, algorithm, Wire(compressor))


def server_exchange(place: ServerPlace, levels: TopKLevels) -> ServerExchange:
    """Return the exchange that sends the gradients of dense shards, as one message, to their server."""
    synchronizer = place.shards[0].synchronizer
    assert isinstance(synchronizer, ParameterServer)
    compressor = synchronizer.compressor
    if isinstance(compressor, TopK):
        return OwnTopKShard(place, compressor, levels)
    if isinstance(compressor, PowerSGD):
        return PowerSGDShard(place, compressor) if compressor.matrix(place.shard.shape) else WholeShard(place, PLAIN)
    if isinstance(compressor, SufficientFactors):
        return FactorShard(place)
    return WholeShard(place, Wire(compressor))
