"""Everything a record says of what it was computed with, as plain lines."""

from __future__ import annotations

from collections.abc import Mapping

from ggmlprobe.record import Config, Record
from ggmlprobe.report.rows import env_label, library_label
from ggmlprobe.report.text import ascii_line

MIB = 2**20


def around_lines(record: Record) -> list[str]:
    """`name: value` lines: configs, libraries with their stamps, devices, machine, cost."""
    lines: list[str] = []
    for config in record.configs:
        each = _config_lines(config)
        # what several configs share stands once
        lines += [line for line in each if line not in lines]
    return lines + _machine_lines(record) + _cost_lines(record)


def _lines(values: Mapping[str, object]) -> list[str]:
    return [f"{name}: {ascii_line(str(value))}" for name, value in values.items() if value]


def _config_lines(config: Config) -> list[str]:
    library, device = config.library, config.device
    threads = f"threads {config.threads}, threads_batch {config.threads_batch}"
    settings = [f"buft {config.buft or 'default'}", threads]
    settings += [f"env {env_label(config.env)}"] * bool(config.env)
    settings += [f"arm {config.arm}"] * bool(config.arm)
    lines = _lines({config.id: ", ".join(settings)})
    if config.model is not None:
        model = config.model
        cache = f"fa {model.fa}, type_k {model.type_k}, type_v {model.type_v}, ngl {model.ngl}"
        lines += _lines({"model": f"{model.file}, {model.description}, {cache}"})
    lines += _lines({"library": f"{library_label(library)}, {library.origin} {library.path}"})
    lines += [f"  {line}" for line in _lines({"files": " ".join(library.files)})]
    lines += [f"  {line}" for line in _lines(library.stamp or {})]
    memory = f", {device.memory_total // MIB} MiB" if device.memory_total else ""
    lines += _lines({"device": f"{device.name}, {device.description}, {device.type}, "
                     f"backend {device.backend}{memory}"})  # fmt: skip
    features = " ".join(f"{name}={value}" for name, value in device.features.items())
    return lines + [f"  {line}" for line in _lines({"features": features})]


def _machine_lines(record: Record) -> list[str]:
    around = record.environment
    plural = "s" * (around.cores_available != 1)
    physical = f" ({around.cores_physical} physical)" if around.cores_physical else ""
    return _lines({
        "driver": around.nvidia_driver or "",
        "cpu": f"{around.cpu}, {around.cores_available} core{plural}{physical}",
        "governor": around.governor or "",
        "os": f"{around.os}, {around.kernel}",
        "variables": " ".join(f"{name}={value}" for name, value in around.env.items()),
        "software": f"ggmlprobe {around.ggmlprobe}, Python {around.python}, numpy {around.numpy}",
        "date": around.date,
    })  # fmt: skip


def _cost_lines(record: Record) -> list[str]:
    timing = record.timing
    if timing is None:
        return []
    peak = f", peak {timing.peak_rss_bytes // MIB} MiB" if timing.peak_rss_bytes else ""
    return [f"run: {timing.wall_seconds:.1f} s, {timing.compute_seconds:.1f} s computing{peak}"]
