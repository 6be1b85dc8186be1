"""Devices, their features, buffer types and memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ggmlprobe.errors import UnknownDevice
from ggmlprobe.ggml.device import Backend, devices
from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.memory import available
from ggmlprobe.ggml.tensor import Context


def test_cpu_device(library: Library) -> None:
    cpu = next(info for info in devices(library) if info.type == "CPU")
    assert cpu.name == "CPU"
    assert cpu.backend == "CPU"
    assert cpu.description
    assert 0 < cpu.memory_free <= cpu.memory_total
    assert cpu.bufts[0] == "CPU"
    assert cpu.features
    assert all(isinstance(value, str) and value for value in cpu.features.values())


def test_extra_buffer_types_hold_weights(library: Library) -> None:
    cpu = next(info for info in devices(library) if info.type == "CPU")
    if "REPACK" in cpu.features:
        assert "CPU_REPACK" in cpu.bufts
    backend = Backend(library, "CPU")
    for name in cpu.bufts:
        with Context(library) as ctx:
            ctx.new_tensor("q4_0", (256, 64))
            assert ctx.allocate(backend, name.lower(), "weights").size >= 256 * 64 // 32 * 18
    backend.free()


def test_names_in_any_case_and_none(library: Library) -> None:
    for name in ("cpu", "CPU", "Cpu"):
        backend = Backend(library, name)
        assert backend.info.name == "CPU"
        backend.free()
    first = Backend(library, None)
    types = [info.type for info in devices(library)]
    assert first.info.type == ("GPU" if "GPU" in types else "CPU")
    first.free()


def test_unknown_names_list_what_there_is(library: Library) -> None:
    with pytest.raises(UnknownDevice, match=r"no device CUDA7 .* there are: .*CPU") as error:
        Backend(library, "CUDA7")
    assert "\n" not in str(error.value)
    backend = Backend(library, "CPU")
    with pytest.raises(UnknownDevice, match="no buffer type VRAM; it has CPU") as error:
        backend.buft("VRAM")
    assert "\n" not in str(error.value)
    backend.free()


def test_supports(library: Library) -> None:
    backend = Backend(library, "CPU")
    with Context(library) as ctx:
        a, b = ctx.new_tensor("q4_K", (256, 4)), ctx.new_tensor("f32", (256, 2))
        assert backend.supports(ctx.op("mul_mat", a, b))
        # no kernel multiplies 64-bit integers
        wrong = ctx.new_tensor("i64", (256, 2))
        assert not backend.supports(ctx.op("mul_mat", a, wrong))
    backend.free()


def test_threads_change_nothing_in_an_exact_product(library: Library) -> None:
    results = []
    for threads in (1, 2, 3):
        backend = Backend(library, "CPU")
        backend.set_threads(threads)
        with Context(library) as ctx:
            a, b = ctx.new_tensor("f32", (64, 50)), ctx.new_tensor("f32", (64, 3))
            out = ctx.op("mul_mat", a, b)
            ctx.allocate(backend)
            a.set(np.arange(3200, dtype=np.float32) % 7)
            b.set(np.arange(192, dtype=np.float32) % 5)
            backend.compute(ctx.graph(out))
            results.append(out.get(np.float32).tolist())
        backend.free()
    assert results[0] == results[1] == results[2]


def write(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = "MemTotal:       16000 kB\nMemFree:         1000 kB\nMemAvailable:    8000 kB\n"


def test_memory_without_control_groups(tmp_path: Path) -> None:
    assert available(write(tmp_path, proc__meminfo=MEMINFO)) == 8000 * 1024


def test_memory_nothing_known(tmp_path: Path) -> None:
    assert available(tmp_path) is None


def test_memory_limit_of_a_parent_group(tmp_path: Path) -> None:
    root = write(tmp_path, proc__meminfo=MEMINFO, proc__self__cgroup="0::/a/b\n")
    group = root / "sys/fs/cgroup/a"
    (group / "b").mkdir(parents=True)
    (group / "b/memory.max").write_text("max\n")
    (group / "b/memory.current").write_text("900000\n")
    (group / "memory.max").write_text("3000000\n")
    (group / "memory.current").write_text("1000000\n")
    assert available(root) == 2000000
    # file pages that can be dropped do not count as used
    (group / "memory.stat").write_text("anon 400000\ninactive_file 600000\n")
    assert available(root) == 2600000


def test_memory_limit_of_version_1(tmp_path: Path) -> None:
    lines = "5:cpu,cpuacct:/x\n4:memory:/x\n"
    root = write(tmp_path, proc__meminfo=MEMINFO, proc__self__cgroup=lines)
    group = root / "sys/fs/cgroup/memory/x"
    group.mkdir(parents=True)
    (group / "memory.limit_in_bytes").write_text("5000\n")
    (group / "memory.usage_in_bytes").write_text("4000\n")
    assert available(root) == 1000
    (group / "memory.usage_in_bytes").write_text("6000\n")
    assert available(root) == 0
