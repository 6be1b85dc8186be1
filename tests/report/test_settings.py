"""What a setting changed is said exactly; a setting that changed nothing is said to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ggmlprobe.record import (
    SCHEMA_VERSION,
    Config,
    DeviceRecord,
    Kernel,
    LibraryInfo,
    Record,
    Result,
    SeedResult,
    TimeStats,
    collect_environment,
)
from ggmlprobe.report.settings import setting_lines


def config(number: int, env: dict[str, str | None], buft: str | None = None) -> Config:
    library = LibraryInfo("lib", "0.1", "abc", "--lib")
    return Config(f"c{number}", library, DeviceRecord("CPU", "x", "CPU", "CPU"), buft, 1, 1, env)


def row(config_id: str, width: int, digest: str, **more: Any) -> Result:
    seeds = [SeedResult(1, [], 0, 0, [digest] * width, True)]
    return Result(config_id, "C", "C", "MUL_MAT", {}, width, "INVARIANT", seeds=seeds, **more)


def record(configs: list[Config], rows: list[Result]) -> Record:
    return Record(SCHEMA_VERSION, "x", configs, collect_environment(), rows)


def stats(low: float, high: float) -> TimeStats:
    fields: dict[str, Any] = {"repeats": 3, "copies": 1, "hot": False, "drift": 0.0}
    fields |= {"weights_bytes": 4, "cache_bytes": 1}
    return TimeStats(median_seconds=(low + high) / 2, low_seconds=low, high_seconds=high, **fields)


CONFIGS = [config(0, {"V": None}), config(1, {"V": "0"}), config(2, {"V": "1"})]


def test_bits_are_named_by_width_and_setting() -> None:
    rows = [row("c0", w, "a") for w in (1, 8, 9)]
    rows += [row("c1", 1, "a"), row("c1", 8, "b"), row("c1", 9, "b")]
    rows += [row("c2", w, "a") for w in (1, 8, 9)]
    first, second = setting_lines(record(CONFIGS, rows))
    assert first == "- V=0 (buft default, threads 1) against unset: bits changed at widths 8,9"
    assert second.endswith("no bit changed")


def test_of_several_devices_each_is_named_and_a_server_has_its_own_settings() -> None:
    there = DeviceRecord("RPC0", "h:1", "RPC", "GPU", endpoint="h:1")
    configs = [replace(c, id=f"s{c.id}", device=there) for c in CONFIGS[:2]]
    rows = [row(c.id, 1, "a") for c in [*CONFIGS[:2], *configs]]
    here, server = setting_lines(record([*CONFIGS[:2], *configs], rows))
    assert here.startswith("- V=0 (device CPU, buft default, threads 1) against unset")
    assert server.startswith(
        "- V=0 (device RPC0[h:1], buft default, threads 1, not set on the server) against unset"
    )


def test_kernels_and_time_are_compared_where_taken() -> None:
    kernel = {"kernels": [Kernel("k")]}
    rows = [row("c0", 1, "a", time=stats(1, 2), **kernel)]
    rows += [row("c1", 1, "a", time=stats(1.5, 3), **kernel)]
    rows += [row("c2", 1, "a", time=stats(2.1, 3), kernels=[Kernel("other")])]
    first, second = setting_lines(record(CONFIGS, rows))
    assert first.endswith("no bit changed, no kernel, no time")
    assert second.endswith(
        "no bit changed, kernels at 1, time at 1 "
        "(taken one after the other: ggmlprobe ab --set-env-b takes turns)"
    )


def test_a_verdict_that_changed_without_hashes_counts() -> None:
    crashed = replace(row("c1", 2, "a"), verdict="CRASH", seeds=[])
    (line, _) = setting_lines(record(CONFIGS, [row("c0", 2, "a"), crashed]))
    assert "bits changed at widths 2" in line


def test_the_baseline_has_the_same_other_settings() -> None:
    configs = [config(0, {"V": None}), config(1, {"V": "0"}, buft="CPU_REPACK")]
    assert setting_lines(record(configs, [row("c0", 1, "a"), row("c1", 1, "b")])) == []


@pytest.mark.parametrize("env", [{}, {"V": None}])
def test_without_a_setting_there_is_no_line(env: dict[str, str | None]) -> None:
    assert setting_lines(record([config(0, env)], [row("c0", 1, "a")])) == []
