"""`python -m autosync.train` is `autosync train`."""

import runpy
import sys

if __name__ == "__main__":
    sys.argv.insert(1, "train")
    runpy.run_module("autosync", run_name="__main__")
