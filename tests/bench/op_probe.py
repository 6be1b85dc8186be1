"""What the op probe costs: `python tests/bench/op_probe.py [LIB]`; prints figures, asserts nothing.

CPU seconds are user and system time of parent and child together. The share inside ggml is
`timing.compute_seconds` over `timing.wall_seconds` of the record.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cost:
    """One command: wall and CPU seconds of all its processes, and its record."""

    wall: float
    cpu: float
    record: dict[str, Any]


def children_cpu() -> float:
    """CPU seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(arguments: str, cache: str, lib: list[str]) -> Cost:
    """Run a command with a cache folder of its own."""
    command = [sys.executable, "-m", "ggmlprobe", *arguments.split(), "-o", "json", *lib]
    env = dict(os.environ, GGMLPROBE_CACHE_DIR=cache)
    before, began = children_cpu(), time.perf_counter()
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - began
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return Cost(wall, children_cpu() - before, json.loads(done.stdout))


def show(name: str, cost: Cost) -> None:
    """One line of figures."""
    timing = cost.record["timing"]
    share = timing["compute_seconds"] / timing["wall_seconds"]
    peak = timing["peak_rss_bytes"] / 2**20
    print(
        f"{name:<44} {cost.wall:6.2f} s wall, {cost.cpu:6.2f} s CPU, "
        f"{share:5.1%} of the cases' wall time in graph_compute, peak {peak:.0f} MiB"
    )


def main() -> None:
    """Cold and warm runs of the reported matrices, and the smallest case."""
    lib = ["--lib", sys.argv[1]] if len(sys.argv) > 1 else []
    one = "preset run issue-28111 --threads 1 --seeds 1"
    with tempfile.TemporaryDirectory() as cache:
        show(f"{one}, cold", run(one, cache, lib))
        for _ in range(3):
            show(f"{one}, warm", run(one, cache, lib))
        show("op mul_mat, m 64, k 256, width 1", run(
            "op mul_mat --m 64 --k 256 --widths 1 --seeds 1", cache, lib))  # fmt: skip
        line = "op flash_attn --widths 1-4 --kv 512,4096,16384"
        show(line, run(line, cache, lib))
        show("pr-28108, q8_0 and q4_0 KV at 16384 too", run("preset run pr-28108", cache, lib))


if __name__ == "__main__":
    main()
