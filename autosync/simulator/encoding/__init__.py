"""Strategies as arrays of dimensionless inputs, pooled or per variable, server, bucket and link, to learn from.

Every input is a share, the logarithm of a ratio or of a count, or a flag, so that training on one model and cluster
applies to others. No input depends on names or on the numbering of devices and groups.
"""

from autosync.simulator.encoding.encoder import Encoder
from autosync.simulator.encoding.graph import BUCKET_INPUTS, EDGE_INPUTS, LINK_INPUTS, SERVER_INPUTS, GraphEncoding
from autosync.simulator.encoding.pooled import POOLED_INPUTS, REPLAY_POOLED, TOPOLOGY_POOLED, closed_form_coefficients
from autosync.simulator.encoding.variables import REPLAY_VARIABLE_INPUTS, TOPOLOGY_VARIABLE_INPUTS, VARIABLE_INPUTS

__all__ = [
    "BUCKET_INPUTS",
    "EDGE_INPUTS",
    "ENCODING_VERSION",
    "LINK_INPUTS",
    "POOLED_INPUTS",
    "REPLAY_POOLED",
    "REPLAY_VARIABLE_INPUTS",
    "SERVER_INPUTS",
    "TOPOLOGY_POOLED",
    "TOPOLOGY_VARIABLE_INPUTS",
    "VARIABLE_INPUTS",
    "Encoder",
    "GraphEncoding",
    "closed_form_coefficients",
]

ENCODING_VERSION = 1
"""The encoding's version. Increase it whenever the meaning of an input changes."""
