"""Import of the public AutoSync dataset: reads its files and turns its samples into records.

The layout is MODEL/graph_item next to MODEL/CLUSTER/{strategies or strategy, resource_spec, runtime}/ID. The files of a
sample share its ID. Facts that are missing in the files are unknown, and records state them as such:

- *Order of gradients*: assumed to be the reverse of the graph's order of variables.
- *Batch size, optimizer, operators and their cost*: a record has batch size 0, no slots, no operators.
- *Rows that a sparse gradient touches*: the user must state their number, or models with sparse gradients are refused.
- *Links*: one rate per node, stated by the file's author (else assumed: 1 Gbit/s), all on one switch, and no latency;
  GPUs without their kind; one core per node, because the number of cores is missing.
- *Timing of steps*: neither warm-up nor versions; the lists of times have various lengths, for unknown reasons.
- *PowerSGD's rank*: 1 in the code of that time. HorovodCompressor cast to float32, so it compressed nothing: left out.

Samples whose strategy has no counterpart here (asynchronous updates, a variable that is not synchronized) are skipped
and reported.
"""

from autosync.dataset.autosync_import.graph_item import GraphFacts, read_graph_item
from autosync.dataset.autosync_import.samples import DatasetSample, Imported, import_dataset, samples_in
from autosync.dataset.autosync_import.strategies import read_strategy

__all__ = [
    "DatasetSample",
    "GraphFacts",
    "Imported",
    "import_dataset",
    "read_graph_item",
    "read_strategy",
    "samples_in",
]
