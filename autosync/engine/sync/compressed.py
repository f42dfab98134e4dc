"""Which exchange a synchronizer and its compressor ask for."""

from __future__ import annotations

from autosync.engine.sync.exchange import BucketExchange, BucketPlace, ServerExchange, ServerPlace
from autosync.engine.sync.whole import WholeBucket, WholeShard
from autosync.engine.sync.wire import Wire
from autosync.spec import AllReduce, Cast, ParameterServer

__all__ = ["bucket_exchange", "server_exchange"]


def bucket_exchange(place: BucketPlace) -> BucketExchange:
    """The exchange of a bucket, all of whose shards have one algorithm and one compressor."""
    synchronizer = place.shards[0].synchronizer
    assert isinstance(synchronizer, AllReduce)
    compressor = synchronizer.compressor
    if compressor is None or isinstance(compressor, Cast):
        return WholeBucket(place, synchronizer.algorithm, Wire(compressor))
    raise NotImplementedError(compressor)


def server_exchange(place: ServerPlace) -> ServerExchange:
    """The exchange that brings a dense shard's gradients to its server."""
    synchronizer = place.shard.synchronizer
    assert isinstance(synchronizer, ParameterServer)
    compressor = synchronizer.compressor
    if compressor is None or isinstance(compressor, Cast):
        return WholeShard(place, Wire(compressor))
    raise NotImplementedError(compressor)
