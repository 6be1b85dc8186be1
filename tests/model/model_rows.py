"""Comparisons and configs for tests that only put them together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy_model import NumpyModel

from ggmlprobe.model.compare import Job, compare
from ggmlprobe.model.record import BlockComparison, ModelSettings
from ggmlprobe.record import (
    SCHEMA_VERSION,
    Config,
    DeviceRecord,
    Header,
    LibraryInfo,
    collect_environment,
)


def config(name: str = "c0", **settings: Any) -> Config:
    """A config of a model; settings are those of ModelSettings, and threads."""
    threads = settings.pop("threads", 1)
    model = ModelSettings(**{
        "file": "m.gguf", "description": "tiny", "size_bytes": 10, "n_vocab": 40, "fa": "off",
    } | settings)  # fmt: skip
    return Config(
        name, LibraryInfo("lib", "0.1", "abc", "--lib"), DeviceRecord("CPU", "cpu", "CPU", "CPU"),
        None, threads, threads, {}, model,
    )  # fmt: skip


def header(*configs: Config) -> Header:
    """The head of a record."""
    given = list(configs) or [config()]
    return Header(SCHEMA_VERSION, "ggmlprobe model compare", given, collect_environment())


def made(
    prompt: str = "p0", width: int = 5, prefix: str = "prefill", n: int = 12, kind: str = "given",
    config: str = "c0", flips_at: tuple[int, ...] = (), shift: float = 0.0,
) -> BlockComparison:  # fmt: skip
    """A comparison of the numpy model; blocks flip at these positions, and differ by a shift."""
    start = 3

    def plant(row: Any, position: int, offset: int) -> None:
        row += row.dtype.type(shift)
        if position - start in flips_at:
            row[0] = row.max() + 1

    blank = BlockComparison(
        config, prompt, kind, "0" * 16, False, n, width, prefix, "INVARIANT"
    )  # fmt: skip
    model = NumpyModel(block=plant)
    job = Job(blank, [1, 2, 3, 4], [(width, prefix)], True, lambda token: f" {token}".encode())
    (row,) = compare(job, model, model)
    return replace(row, seconds=1.0)
