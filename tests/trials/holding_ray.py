"""A program that starts Ray as the commands do, keeps a worker busy, and waits to be killed."""

from __future__ import annotations

import os
import sys
import time

import ray

from trials.workers.local_ray import RayStart, start_ray


@ray.remote(num_cpus=1)
class Busy:
    def pid(self) -> int:
        return os.getpid()

    def work(self) -> None:
        time.sleep(600)


if __name__ == "__main__":
    start_ray(RayStart(workers=2))
    busy = Busy.remote()
    ray.get(busy.pid.remote())
    call = busy.work.remote()
    sys.stdout.write("Ray is there.\n")
    sys.stdout.flush()
    ray.get(call)
