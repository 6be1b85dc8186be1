"""Devices side by side: rows are cases, columns devices, cells the first widths with findings."""

from __future__ import annotations

from collections.abc import Sequence

from ggmlprobe.record import Record, Result
from ggmlprobe.report.marks import ALONE, BESIDE
from ggmlprobe.report.rows import configs_by_id, device_label
from ggmlprobe.report.table import layout_of, pipe_table
from ggmlprobe.report.text import NONE, ascii_line
from ggmlprobe.verdict import FINDINGS, Verdict

MARKS = {**ALONE, **BESIDE}


def table(record: Record) -> str:
    """The matrix with its legend; nothing where there is one device."""
    configs = {name: device_label(config) for name, config in configs_by_id(record).items()}
    devices = list(dict.fromkeys(configs.values()))
    if len(devices) < 2 or not record.results:
        return ""
    varying = {k: cell for k, cell in layout_of(record).varying.items() if k != "device"}
    varying = varying or {"op": lambda row: ascii_line(row.op)}
    lines: dict[tuple[str, ...], dict[str, list[Result]]] = {}
    order = {case: i for i, case in enumerate(dict.fromkeys(row.case for row in record.results))}
    for row in sorted(record.results, key=lambda row: order[row.case]):
        place = tuple(cell(row) for cell in varying.values())
        lines.setdefault(place, {}).setdefault(configs[row.config], []).append(row)
    columns = {name: [place[i] for place in lines] for i, name in enumerate(varying)}
    columns |= {name: [_cell(line.get(name, [])) for line in lines.values()] for name in devices}
    return f"{pipe_table(columns)}\n\n{_legend(record)}"


def _cell(rows: Sequence[Result]) -> str:
    """The narrowest width of each kind of finding, with its mark: `8`, `2,8cr`."""
    firsts: dict[Verdict, int] = {}
    for row in sorted(rows, key=lambda row: row.width):
        firsts.setdefault(Verdict(row.verdict), row.width)
    found = [f"{width}{MARKS.get(v, '')}" for v, width in firsts.items() if v in FINDINGS]
    if found or not rows:
        return ",".join(found)
    return ALONE[Verdict.UNSUPPORTED] if set(firsts) == {Verdict.UNSUPPORTED} else NONE


def _legend(record: Record) -> str:
    seen = {Verdict(row.verdict) for row in record.results}
    said = [f"{mark} {verdict}" for verdict, mark in MARKS.items() if verdict in seen]
    return ", ".join([f"- by device: narrowest width of each finding, {NONE} none", *said])
