"""The lines below a table: what it was measured with, and what came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ggmlprobe.record import Config, Record
from ggmlprobe.report.rows import CONFIG_COLUMNS, library_label
from ggmlprobe.report.text import ascii_line, ranges
from ggmlprobe.verdict import FINDINGS, Verdict

SEEDS_WANTED = 3


def footer(record: Record) -> list[str]:
    """Library, device, seeds, machine and count of findings, one list item each."""
    return [
        f"- library: {library_line(record)}",
        f"- device: {device_line(record)}",
        f"- seeds: {seeds_line(record)}",
        *error_lines(record),
        f"- machine: {machine_line(record)}",
        f"- findings: {findings_line(record)}",
    ]


def library_line(record: Record) -> str:
    """Version, commit, origin and path of every library, and its CPU backend if it has several."""
    return _each(map(_library, record.configs))


def _each(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, texts)))


def _library(config: Config) -> str:
    label = library_label(config.library)
    origin = ascii_line(config.library.origin)
    # which of several CPU backends libggml took for this machine
    variants = [ascii_line(name) for name in config.library.files if "ggml-cpu-" in name]
    return ", ".join([label, f"{origin} {ascii_line(config.library.path)}", *variants])


def device_line(record: Record) -> str:
    """Devices, driver, and the settings they computed with."""
    devices = _each(
        ascii_line(", ".join(filter(None, (config.device.name, config.device.description))))
        for config in record.configs
    )
    driver = record.environment.nvidia_driver
    parts = [
        devices,
        _each(map(_features, record.configs)),
        f"driver {ascii_line(driver)}" if driver else "",
    ]
    parts += [f"{name} {_values(record, name)}" for name in ("buft", "threads", "threads_batch")]
    if any(config.device.endpoint for config in record.configs):
        parts.append("threads of a server are its own")
    if any(config.env for config in record.configs):
        parts.append(f"env {_values(record, 'env')}")
    return ", ".join(filter(None, parts))


def _features(config: Config) -> str:
    """Features that are on, as ggml_backend_get_features names them."""
    features = config.device.features.items()
    return ascii_line(
        " ".join(n if v == "1" else f"{n}={v}" for n, v in features if v not in ("", "0"))
    )


def _values(record: Record, name: str) -> str:
    return " and ".join(dict.fromkeys(map(CONFIG_COLUMNS[name], record.configs)))


def seeds_line(record: Record) -> str:
    """Seeds of all rows, and whether an INVARIANT has fewer than it needs."""
    text = ranges(part.seed for row in record.results for part in row.seeds) or "none"
    few = any(
        row.verdict == Verdict.INVARIANT and len(row.seeds) < SEEDS_WANTED for row in record.results
    )
    return f"{text} (INVARIANT on fewer than {SEEDS_WANTED} seeds)" if few else text


def error_lines(record: Record) -> list[str]:
    """The largest NMSE of all rows: that the outputs were right stands also under a clean table."""
    pairs = [(row.nmse_serial, row.nmse_width) for row in record.results]
    known = [value for pair in pairs for value in pair if value is not None]
    if not known:
        return []
    alone = "" if any(row.width > 1 for row in record.results) else "; no width above 1 compared"
    return [f"- error: NMSE against float64 at most {max(known):.3g}{alone}"]


def machine_line(record: Record) -> str:
    """CPU, cores, system, variables that ggml reads, version and date."""
    around = record.environment
    env = " ".join(f"{name}={value}" for name, value in around.env.items())
    cores = f"{around.cores_available} core" + "s" * (around.cores_available != 1)
    parts = [around.cpu, cores, around.os, env, f"ggmlprobe {around.ggmlprobe}", around.date]
    return ", ".join(ascii_line(part) for part in parts if part)


def findings_line(record: Record) -> str:
    """How many rows are findings, and how many have each verdict."""
    counts = Counter(row.verdict for row in record.results)
    found = sum(count for verdict, count in counts.items() if verdict in FINDINGS)
    each = ", ".join(f"{counts[v]} {v}" for v in Verdict if counts[v])
    text = f"{found} of {len(record.results)} rows" + (f" ({each})" if each else "")
    return f"{text}; interrupted, rows are missing" if record.interrupted else text
