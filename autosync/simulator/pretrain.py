"""`python -m autosync.simulator.pretrain` is `autosync pretrain`."""

import runpy
import sys

if __name__ == "__main__":
    sys.argv.insert(1, "pretrain")
    runpy.run_module("autosync", run_name="__main__")
