"""The choice of the exchange that a synchronizer and its compressor ask for."""

from autosync.engine.sync.exchange import BucketExchange, BucketPlace, ServerExchange, ServerPlace
from autosync.engine.sync.factors import FactorBucket, FactorShard
from autosync.engine.sync.ladder import Ladder
from autosync.engine.sync.power_sgd import PowerSGDBucket, PowerSGDShard
from autosync.engine.sync.top_k import OwnTopKBucket, OwnTopKShard, SharedTopKBucket, SwitchedTopKBucket
from autosync.engine.sync.whole import WholeBucket, WholeShard
from autosync.engine.sync.wire import PLAIN, Wire
from autosync.spec import AllReduce, ParameterServer, PowerSGD, SufficientFactors, TopK


def bucket_exchange(place: BucketPlace, ladder: Ladder) -> BucketExchange:
    """The exchange of a bucket, all of whose shards have one algorithm and one compressor."""
    synchronizer = place.shards[0].synchronizer
    assert isinstance(synchronizer, AllReduce)
    algorithm, compressor = synchronizer.algorithm, synchronizer.compressor
    if isinstance(compressor, TopK):
        if ladder.transports:
            return SwitchedTopKBucket(place, compressor, ladder)
        if compressor.indices == "own":
            return OwnTopKBucket(place, compressor, algorithm, ladder)
        return SharedTopKBucket(place, compressor, algorithm, ladder)
    if isinstance(compressor, PowerSGD):
        if any(compressor.matrix(shard.shape) for shard in place.shards):
            return PowerSGDBucket(place, compressor, algorithm)
        return WholeBucket(place, algorithm, PLAIN)
    if isinstance(compressor, SufficientFactors):
        return FactorBucket(place)
    return WholeBucket(place, algorithm, Wire(compressor))


def server_exchange(place: ServerPlace, ladder: Ladder) -> ServerExchange:
    """The exchange that brings gradients of dense shards that travel together to their server."""
    synchronizer = place.shards[0].synchronizer
    assert isinstance(synchronizer, ParameterServer)
    compressor = synchronizer.compressor
    if isinstance(compressor, TopK):
        return OwnTopKShard(place, compressor, ladder)
    if isinstance(compressor, PowerSGD):
        return PowerSGDShard(place, compressor) if compressor.matrix(place.shard.shape) else WholeShard(place, PLAIN)
    if isinstance(compressor, SufficientFactors):
        return FactorShard(place)
    return WholeShard(place, Wire(compressor))
