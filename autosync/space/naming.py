"""Names of decisions, for the sentences that explain why a strategy lies outside a space."""

from autosync.spec import AllReduce, Compressor, ParameterServer, Partition


def cut_text(cut: Partition | None) -> str:
    return f"cut in {cut.shards} along axis {cut.axis}" if cut else "whole"


def compressor_text(compressor: Compressor | None) -> str:
    return " ".join(map(str, compressor.to_json().values())) if compressor else "uncompressed"


def reduction_text(shard: AllReduce) -> str:
    return f"{shard.algorithm} {compressor_text(shard.compressor)}" if shard.compressor else shard.algorithm


def server_text(server: ParameterServer) -> str:
    copy = " with a local copy" if server.local_copy else ""
    compressor = f" {compressor_text(server.compressor)}" if server.compressor else ""
    return f"{server.device}{copy}{compressor}"
