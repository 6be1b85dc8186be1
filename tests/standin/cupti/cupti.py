"""The calls of cupti.cupti 13.4 that are used, on the launches the stand-in backend wrote down."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ActivityKind = SimpleNamespace(CONCURRENT_KERNEL=10, KERNEL=3)


class cuptiError(Exception):
    """What the binding raises for a status that is not success."""


_callbacks: list[Callable[..., Any]] = []


def _backend() -> ctypes.CDLL:
    """The libggml-cuda.so that is loaded."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    path = next(line.split()[-1] for line in lines if line.endswith("libggml-cuda.so"))
    library = ctypes.CDLL(path)
    library.standin_launches.restype = ctypes.c_char_p
    return library


def _records() -> Iterator[SimpleNamespace]:
    for line in _backend().standin_launches().decode().splitlines():
        name, columns, ns = line.split()
        yield SimpleNamespace(
            kind=ActivityKind.CONCURRENT_KERNEL, name=name, start=0, end=int(ns),
            grid_x=int(columns), grid_y=1, grid_z=1, block_x=32, block_y=4, block_z=1,
            static_shared_memory=0, dynamic_shared_memory=0,
        )  # fmt: skip


def activity_register_callbacks(room: Callable[[], tuple[int, int]], done: Any) -> None:
    """Keep the function that takes records."""
    room()
    _callbacks[:] = [done]


def activity_enable(kind: int) -> None:
    """Forget what was launched before."""
    assert kind == ActivityKind.CONCURRENT_KERNEL
    _backend().standin_launches()


def activity_disable(kind: int) -> None:
    """Nothing is recorded but between enable and flush."""


def activity_flush_all(flag: int) -> None:
    """Hand out what was launched since."""
    _callbacks[0](list(_records()))
