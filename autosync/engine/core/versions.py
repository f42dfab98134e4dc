"""The versions of the engines. Every record of a trial holds one."""

from collections.abc import Mapping
from types import MappingProxyType

VERSIONS: Mapping[str, int] = MappingProxyType({"tensorflow": 3, "pytorch": 2})
"""The version of how each engine and trials carry out and time steps. Raise it whenever a step may take another time
than before. TensorFlow: since 2 gathers may use relays, and recursive halving works for all replica counts; since 3 a
paced step gets no inputs from the client. PyTorch: since 2 the updates during a paced forward pass make it longer."""

ENGINE = VERSIONS["tensorflow"]
"""The engine version of records that name no framework."""
