"""The children a command needs: one for each environment, with the configs it computes in."""

from __future__ import annotations

import os
from pathlib import Path

from ggmlprobe.cli.options import ProbeOptions
from ggmlprobe.configs import configs_of, environments
from ggmlprobe.dispatch.passes import check_kernels
from ggmlprobe.record import Config
from ggmlprobe.worker.protocol import Event, Spec
from ggmlprobe.worker.supervisor import Worker


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0))


def cache_dir() -> str | None:
    """`GGMLPROBE_CACHE_DIR`, else ggmlprobe under the user's cache folder; None without a home."""
    if given := os.environ.get("GGMLPROBE_CACHE_DIR"):
        return given
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None
    return str(Path(base) / "ggmlprobe")


class Fleet:
    """Workers by config id; a child that is not needed yet does not run.

    Attributes:
        configs: every environment's configs, the baseline's first.
        workers: the worker of each config.
    """

    def __init__(self, options: ProbeOptions) -> None:
        self.options = options
        self.configs: list[Config] = []
        self.workers: dict[str, Worker] = {}

    def start(self) -> Event:
        """Load the library in every environment; the description in the first one."""
        options = self.options
        first: Event = {}
        for env in environments(options.env):
            worker = Worker(Spec(options.lib, env, cache_dir()), options.timeout)
            try:
                ready = worker.ready()
                made = configs_of(
                    ready, options.device, options.buft or (None,),
                    options.threads or (cores(),), options.threads_batch, env, len(self.configs),
                )  # fmt: skip
                if options.kernels:
                    check_kernels(ready["files"], {config.device.backend for config in made})
            finally:
                if first:
                    worker.stop()
            first = first or ready
            self.configs += made
            self.workers |= {config.id: worker for config in made}
        return first

    def stop(self) -> None:
        """End every child."""
        for worker in self.workers.values():
            worker.stop()
