"""Import of the public AutoSync dataset: its files read, and its samples turned into records.

The layout is MODEL/graph_item beside MODEL/CLUSTER/{strategies or strategy, resource_spec, runtime}/ID, the files of
one sample sharing its ID. What the files do not say cannot be known, and records say so:

- *Order of gradients*: assumed to be the reverse of the graph's order of variables.
- *Batch size, optimizer, operators and their cost*: a record has batch size 0, no slots, no operators.
- *Rows that a sparse gradient touches*: has to be given, or models with sparse gradients are refused.
- *Links*: one rate a node, stated by whoever wrote the file (else assumed: 1 Gbit/s), all on one switch, and
  no latency; GPUs without their kind; one core a node, for want of their number.
- *How steps were timed*: neither warm-up nor versions; lists of times have various lengths, which nobody has explained.
- *PowerSGD's rank*: 1 in the code of that time. HorovodCompressor cast to float32, so it compressed nothing: left out.

Samples whose strategy has no counterpart here (asynchronous updates, a variable that is not synchronized) are passed
over and told.
"""

from autosync.dataset.autosync_import.graph_item import GraphFacts, read_graph_item
from autosync.dataset.autosync_import.samples import Imported, Sample, import_dataset, samples_in
from autosync.dataset.autosync_import.strategies import read_strategy

__all__ = ["GraphFacts", "Imported", "Sample", "import_dataset", "read_graph_item", "read_strategy", "samples_in"]
