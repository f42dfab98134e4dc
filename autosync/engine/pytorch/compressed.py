"""Chooses the exchanges of a bucket by its synchronizer and compressor."""

from __future__ import annotations

from collections.abc import Sequence

from autosync.engine.pytorch.collective import CollectiveAllReduce
from autosync.engine.pytorch.exchange import GradientExchange
from autosync.engine.pytorch.exchanges import HalfwayExchange
from autosync.engine.pytorch.factor_exchange import FactorExchange
from autosync.engine.pytorch.place import Place
from autosync.engine.pytorch.plan import PlannedExchange
from autosync.engine.pytorch.power_sgd import PowerSGDAllReduce, PowerSGDServer
from autosync.engine.pytorch.top_k import OwnTopK, SharedTopK
from autosync.engine.pytorch.wire import CastResults, WireForm
from autosync.layout.moves import Span
from autosync.spec import PowerSGD, SufficientFactors, TopK


def exchanges_of(place: Place) -> Sequence[GradientExchange]:
    """The exchanges of a bucket on this rank: of its whole array, or of spans end to end.

    All ranks make their exchanges in the same order.
    """
    bucket, compressor = place.bucket, place.bucket.synchronizer.compressor
    if bucket.is_collective and (bucket.cast is not None or place.exchanges.has_collectives):
        return [CollectiveAllReduce(place)]
    if bucket.exchanges:
        return sums_of(place)
    if isinstance(compressor, PowerSGD):
        return [PowerSGDServer(place, compressor) if place.server else PowerSGDAllReduce(place, compressor)]
    if isinstance(compressor, SufficientFactors):
        return [FactorExchange(place)]
    assert isinstance(compressor, TopK)
    return [OwnTopK(place, compressor) if compressor.indices == "own" else SharedTopK(place, compressor)]


def sums_of(place: Place, stops_halfway: bool = False) -> list[HalfwayExchange]:
    """The exchanges of a bucket whose gradients are added up on their way; see `ProgramExchange`."""
    return [_exchange_of_sums(place.part(planned.span), planned, stops_halfway) for planned in place.bucket.exchanges]


def _exchange_of_sums(place: Place, planned: PlannedExchange, stops_halfway: bool) -> HalfwayExchange:
    """The exchange of a span, whose sums may be cast on their way. A server's results travel in full precision."""
    wire = WireForm(place.bucket.cast)
    if place.bucket.cast is None or place.server is not None:
        return place.exchange(planned.programs, place.divide, stops_halfway, wire)
    rounds = (program_round for program in planned.programs for program_round in program.rounds)
    results = CastResults(wire, place.results, {span for program_round in rounds for span in program_round.finished})

    def finish(span: Span) -> None:
        place.divide(span)
        results.write(span)

    return place.exchange(planned.programs, finish, False, wire, results)
