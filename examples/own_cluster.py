"""Search for the fastest strategy of the transformer in torch_transformer.py, on the cluster of own_cluster.yaml.

On your own machines, state their addresses and links in own_cluster.yaml, start Ray on all of them (docs/clusters.md),
and run `RAY_ADDRESS=HEAD:6379 python own_cluster.py`. On a single Linux machine, as root, emulate the cluster:

    autosync emulate up own_cluster.yaml
    autosync emulate exec -- python own_cluster.py
    autosync emulate down
"""

import sys

import autosync

result = autosync.find_strategy(
    "torch_transformer:build",
    cluster="own_cluster.yaml",
    working_dir=".",  # copied to all nodes, which need the model's file
    trials=int(sys.argv[1]) if sys.argv[1:] else 24,
    warmup_steps=2,
    timed_steps=8,
)
print(result)
print(f"Its report: {result.report()}")
