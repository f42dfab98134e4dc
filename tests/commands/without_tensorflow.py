"""Runs `autosync profile` in a process that has no TensorFlow, once for each list of arguments that it is given.

The lists are JSON, on the command line. Each line that is printed is a list's exit status.
"""

import json
import sys

WITHHELD = ("tensorflow", "tensorflow_text", "tensorflow_datasets", "ray", "pyarrow", "matplotlib", "scipy", "pydantic")

if __name__ == "__main__":
    sys.modules.update(dict.fromkeys(WITHHELD))  # type: ignore[arg-type]
    from autosync.commands import main

    for arguments in json.loads(sys.argv[1]):
        sys.stdout.write(f"status {main(['profile', *arguments])}\n")
        sys.stdout.flush()
