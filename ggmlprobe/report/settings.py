"""What each environment setting changed against the baseline: bits, kernels, time."""

from __future__ import annotations

from dataclasses import replace

from ggmlprobe.dispatch.classes import served_alike
from ggmlprobe.record import Config, Record, Result
from ggmlprobe.report.rows import device_label
from ggmlprobe.report.text import ranges

Key = tuple[str, int]

APART = " (taken one after the other: ggmlprobe ab --set-env-b takes turns)"
"""The load of the machine may have moved between two settings as well."""


def setting_lines(record: Record) -> list[str]:
    """One line for each config whose environment is not the baseline's; none without settings."""
    rows: dict[str, dict[Key, Result]] = {}
    for row in record.results:
        rows.setdefault(row.config, {})[row.case, row.width] = row
    lines = []
    several = len({device_label(config) for config in record.configs}) > 1
    for config in record.configs:
        baseline = _baseline(config, record.configs)
        if baseline is not None:
            effect = _effect(rows.get(baseline.id, {}), rows.get(config.id, {}))
            lines.append(f"- {_label(config, several)} against unset: {effect}")
    return lines


def _baseline(config: Config, configs: list[Config]) -> Config | None:
    """The config that differs only in having every variable unset; None for itself."""
    if all(value is None for value in config.env.values()):
        return None
    unset = dict.fromkeys(config.env)
    wanted = replace(config, env=unset)
    return next((c for c in configs if replace(c, id=config.id) == wanted), None)


def _label(config: Config, several: bool) -> str:
    values = " ".join(f"{name}={value or ''}" for name, value in config.env.items())
    where = f"device {device_label(config)}, " if several else ""
    there = ", not set on the server" if config.device.endpoint else ""
    return f"{values} ({where}buft {config.buft or 'default'}, threads {config.threads}{there})"


def _effect(before: dict[Key, Result], after: dict[Key, Result]) -> str:
    """What differs in the rows both have."""
    pairs = [(before[key], after[key]) for key in after if key in before]
    if not pairs:
        return "nothing to compare"
    bits = {b.width for a, b in pairs if _hashes(a) != _hashes(b) or a.verdict != b.verdict}
    parts = [f"bits changed at widths {ranges(bits)}" if bits else "no bit changed"]
    if any(a.kernels and b.kernels for a, b in pairs):
        moved = {b.width for a, b in pairs if not served_alike(a.kernels, b.kernels)}
        parts.append(f"kernels at {ranges(moved)}" if moved else "no kernel")
    if any(a.time and b.time for a, b in pairs):
        moved = {b.width for a, b in pairs if _time_moved(a, b)}
        parts.append(f"time at {ranges(moved)}{APART}" if moved else "no time")
    return ", ".join(parts)


def _hashes(row: Result) -> list[list[str]]:
    return [seed.hashes for seed in row.seeds]


def _time_moved(a: Result, b: Result) -> bool:
    """Whether the middle halves of the repeats do not overlap."""
    if a.time is None or b.time is None:
        return False
    return a.time.high_seconds < b.time.low_seconds or b.time.high_seconds < a.time.low_seconds
