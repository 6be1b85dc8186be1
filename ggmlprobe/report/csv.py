"""CSV that opens in a spreadsheet: one row per result, parameters in columns of their own."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from ggmlprobe.record import Config, Record, Result, TimeStats, to_dict
from ggmlprobe.report.rows import (
    CONFIG_FIELDS,
    class_letters,
    config_fields,
    configs_by_id,
    env_label,
    param_names,
)
from ggmlprobe.report.text import ascii_line, param

FORMULA = ("=", "+", "-", "@")
FOUND_FIELDS = ("width", "class", "columns_differing", "seeds")
RESULT_FIELDS = (
    "verdict",
    "elements",
    "elements_differing",
    "max_ulp",
    "max_abs",
    "max_err_scaled",
    "nmse_serial",
    "nmse_width",
    "unwritten",
    "nan",
    "signal",
    "backends",
    "weights_buft",
    "openblas_threads",
    "compute_seconds",
    "time_seconds",
    "time_low_seconds",
    "time_high_seconds",
    "gbps",
    "gflops",
    "time_note",
    "kernels",
    "kernels_note",
    "detail",
    "case",
    "upstream_case",
)


def render(record: Record) -> str:
    """A header line, then one line per result; empty cells where there is nothing.

    Lists of numbers stand with spaces between them: ``1-3`` or ``1,3`` would open as a date or as
    another number. A parameter with the name of another column gets ``param_`` before it.
    """
    configs = configs_by_id(record)
    letters = class_letters(record)
    params = {name: _param_column(name) for name in param_names(record.results)}
    out = io.StringIO()
    columns = [*CONFIG_FIELDS, "op", *params.values(), *FOUND_FIELDS, *RESULT_FIELDS]
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    for row in record.results:
        writer.writerow(_row(row, configs[row.config], letters.get(row.key), params))
    return out.getvalue()


def _param_column(name: str) -> str:
    taken = {*CONFIG_FIELDS, "op", *FOUND_FIELDS, *RESULT_FIELDS}
    return str(cell(f"param_{name}" if name in taken else name))


def _row(
    row: Result, config: Config, letter: str | None, params: Mapping[str, str]
) -> dict[str, Any]:
    """One line by column name; ``params`` maps parameter names to column names."""
    around = config_fields(config) | {"env": env_label(config.env) if config.env else None}
    parameters = {column: _param(row, name) for name, column in params.items()}
    found = {
        "width": row.width,
        "class": letter,
        "columns_differing": " ".join(map(str, row.columns_differing)),
        "seeds": " ".join(str(part.seed) for part in row.seeds),
    }
    plain = to_dict(row) | _time(row.time)
    plain["backends"] = " ".join(row.backends) or None
    plain["kernels"] = "; ".join(kernel.name for kernel in row.kernels) or None
    fields = {name: plain[name] for name in RESULT_FIELDS}
    cells = around | {"op": row.op} | parameters | found | fields
    return {name: cell(value) for name, value in cells.items()}


def _time(time: TimeStats | None) -> dict[str, float | None]:
    return {
        "time_seconds": time.median_seconds if time else None,
        "time_low_seconds": time.low_seconds if time else None,
        "time_high_seconds": time.high_seconds if time else None,
        "gbps": time.gbps if time else None,
        "gflops": time.gflops if time else None,
    }


def _param(row: Result, name: str) -> str | None:
    return param(row.params[name]) if row.params.get(name) is not None else None


def cell(value: Any) -> Any:
    """The value as a spreadsheet shows it: no text of a record is a formula there."""
    if not isinstance(value, str):
        return value
    line = ascii_line(value)
    return f"'{line}" if line.startswith(FORMULA) else line
