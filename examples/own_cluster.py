"""Search the fastest strategy for the transformer of torch_transformer.py on the cluster of own_cluster.yaml.

On machines of yours, state their addresses and links in own_cluster.yaml, start Ray on all of them (docs/clusters.md),
and run this script on the head. On a single Linux machine, as root, emulate the cluster first. In this folder:

    autosync emulate up own_cluster.yaml
    autosync emulate exec -- python own_cluster.py 24
    autosync emulate down
"""

import sys

import autosync

trials = int(sys.argv[1]) if sys.argv[1:] else 24
result = autosync.find_strategy(
    "torch_transformer:build",
    cluster="own_cluster.yaml",
    trials=trials,
    time_budget=150,
    warmup_steps=2,
    timed_steps=8,
    out="runs/own_cluster",
)
print(result)
print(f"Its report: {result.report()}")
