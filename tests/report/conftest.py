"""Records that the report tests render."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ggmlprobe.record import (
    SCHEMA_VERSION,
    CaseClasses,
    Config,
    DeviceRecord,
    Environment,
    LibraryInfo,
    Record,
    Result,
    SeedResult,
)

ENVIRONMENT = Environment(
    cpu="Example CPU",
    cores_physical=2,
    cores_available=4,
    os="Example OS 1",
    kernel="Linux 6.1 x86_64",
    python="3.11.7",
    numpy="2.0.0",
    ggmlprobe="0.1.0",
    date="2026-01-02T03:04:05+00:00",
    nvidia_driver="570.86.15",
)
CONFIG = Config(
    id="c0",
    library=LibraryInfo("build/bin", "0.25.3", "0c1e57098", "--lib"),
    device=DeviceRecord("CPU", "Example CPU", "CPU", "CPU", 1 << 34, {"AVX2": "1"}),
    buft=None,
    threads=2,
    threads_batch=2,
)


def seed_results(count: int, columns: list[int]) -> list[SeedResult]:
    return [SeedResult(i, columns, 5 * len(columns), 3, ["00" * 8], True) for i in range(count)]


def make_result(width: int, columns: list[int] | None = None, **changes: Any) -> Result:
    columns = columns or []
    params = changes.pop("params", {"type_a": "q4_K", "type_b": "f32", "m": 512, "k": 1024})
    text = ",".join(f"{name}={value}" for name, value in params.items())
    row = Result(
        config="c0",
        case=f"MUL_MAT({text})",
        upstream_case=f"MUL_MAT({text},n={width})",
        op="MUL_MAT",
        params=params,
        width=width,
        verdict="MISMATCH" if columns else "INVARIANT",
        columns_differing=columns,
        elements=512 * width,
        elements_differing=5 * len(columns),
        max_ulp=1234 if columns else 0,
        max_err_scaled=0.98765 if columns else 0.0,
        nmse_serial=1.23456e-13,
        nmse_width=2.5e-13,
        seeds=seed_results(3, columns),
    )
    return replace(row, **changes)


def make_record(results: list[Result], **changes: Any) -> Record:
    record = Record(
        schema=SCHEMA_VERSION,
        command="ggmlprobe op mul_mat --type q4_K --widths 1,4,5",
        configs=[CONFIG],
        environment=ENVIRONMENT,
        results=results,
    )
    return replace(record, **changes)


@pytest.fixture
def result() -> Callable[..., Result]:
    """Factory of one row: ``result(width, columns_differing, **changes)``."""
    return make_result


@pytest.fixture
def record() -> Callable[..., Record]:
    """Factory of a record: ``record(results, **changes)``."""
    return make_record


@pytest.fixture
def repack_record() -> Record:
    """q4_K in CPU_REPACK: column 4 of width 5 equals serial, columns 0-3 do not."""
    rows = [make_result(1), make_result(4, [0, 1, 2, 3]), make_result(5, [0, 1, 2, 3])]
    classes = [CaseClasses(rows[0].case, "c0", [[1], [4, 5]], False, [[1, 5]])]
    return make_record(rows, classes=classes)


@pytest.fixture
def config() -> Config:
    """The config of every row the factories make."""
    return CONFIG
