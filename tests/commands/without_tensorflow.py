"""Runs `autosync profile` in a process without TensorFlow, once for each list of arguments.

The lists are JSON, on the command line. Each printed line is the exit status of a list.
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
