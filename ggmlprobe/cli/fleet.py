"""The children a command needs: one for each environment, with the configs it computes in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ggmlprobe import system
from ggmlprobe.cli.options import ProbeOptions
from ggmlprobe.configs import configs_of, environments, named_devices
from ggmlprobe.dispatch.passes import check_kernels
from ggmlprobe.endpoint import endpoint_of
from ggmlprobe.errors import UnknownDevice
from ggmlprobe.record import Config
from ggmlprobe.worker.protocol import Event, Spec
from ggmlprobe.worker.supervisor import Worker

Env = dict[str, str | None]


def cores() -> int:
    """Cores this process may use."""
    return len(system.cores())


def cache_dir() -> str | None:
    """`GGMLPROBE_CACHE_DIR`, else ggmlprobe under the user's cache folder; None without a home."""
    if given := os.environ.get("GGMLPROBE_CACHE_DIR"):
        return given
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None
    return str(Path(base) / "ggmlprobe")


@contextmanager
def _telling_what_is_unset(env: Env) -> Iterator[None]:
    """Where a variable decides that a device is not there, say that the baseline is without it."""
    try:
        yield
    except UnknownDevice as error:
        unset = [name for name, value in env.items() if value is None and name in str(error)]
        if not unset:
            raise
        raise UnknownDevice(
            f"{error}; --set-env runs a baseline without {', '.join(unset)}: "
            "take it out of --set-env and export it"
        ) from error


class Fleet:
    """Workers by config id; a child that is not needed yet does not run.

    Attributes:
        configs: device by device, of each every environment's, the baseline's first.
        workers: the worker of each config.
    """

    def __init__(self, options: ProbeOptions) -> None:
        self.options = options
        self.configs: list[Config] = []
        self.workers: dict[str, Worker] = {}
        self._children: dict[tuple[Any, ...], tuple[Worker, Event]] = {}

    def start(self) -> Event:
        """Load the library for every server and environment; the description in the first one."""
        options, envs = self.options, environments(self.options.env)
        with _telling_what_is_unset(envs[0]):
            places = self._places(envs[0])
        for endpoint, device in places:
            for env in envs:
                worker, ready = self._child(endpoint, env)
                with _telling_what_is_unset(env):
                    made = configs_of(
                        ready, device, options.buft or (None,), options.threads or (cores(),),
                        options.threads_batch, env, len(self.configs),
                    )  # fmt: skip
                if options.kernels:
                    check_kernels(ready["files"], {config.device.backend for config in made})
                self.configs += made
                self.workers |= {config.id: worker for config in made}
        return next(iter(self._children.values()))[1]

    def _places(self, env: Env) -> list[tuple[str | None, str | None]]:
        """Server and name of every device that was asked for, each once."""
        if self.options.device is None:
            return [(None, None)]
        asked = [(endpoint_of(name), name) for name in self.options.device]
        return list(dict.fromkeys(
            (endpoint, device)
            for endpoint, name in asked
            for device in named_devices(self._child(endpoint, env)[1], name)
        ))  # fmt: skip

    def _child(self, endpoint: str | None, env: Env) -> tuple[Worker, Event]:
        """The worker for a server and environment, and what it tells; only the first keeps on."""
        key = (endpoint, *env.items())
        if key not in self._children:
            options = self.options
            spec = Spec(
                options.lib, env, cache_dir(), endpoint=endpoint, kernels=options.kernels
            )  # fmt: skip
            worker = Worker(spec, options.timeout)
            try:
                ready = worker.ready()
            finally:
                if self._children:
                    worker.stop()
            self._children[key] = worker, ready
        return self._children[key]

    def stop(self) -> None:
        """End every child."""
        for worker in [*self.workers.values(), *(child[0] for child in self._children.values())]:
            worker.stop()
