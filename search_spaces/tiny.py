"""A space that can be tried completely with a small model: on the first server, or all-reduced in one bucket."""

from autosync.space import EVERYTHING, Rule, Servers, Space, VariableFilter

SPACE = Space(
    name="tiny",
    description="big variables on the first server or all-reduced, small ones all-reduced, one bucket",
    rules=(
        Rule(where=VariableFilter(over_bytes=4096), servers=Servers(placement="first"), all_reduce=True),
        Rule(where=EVERYTHING, all_reduce=True),
    ),
    max_buckets=1,
)
