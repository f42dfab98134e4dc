"""`python -m trials.emulate` is `autosync emulate`."""

import runpy
import sys

if __name__ == "__main__":
    sys.argv.insert(1, "emulate")
    runpy.run_module("autosync", run_name="__main__")
