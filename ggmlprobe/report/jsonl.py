"""JSON Lines: one self-contained object per result, for pandas and polars."""

from __future__ import annotations

from ggmlprobe.record import Record, dumps, to_dict
from ggmlprobe.report.rows import class_letters, config_fields, configs_by_id


def render(record: Record) -> str:
    """One line per result: what its config says, its class letter, its own fields."""
    configs = configs_by_id(record)
    letters = class_letters(record)
    return "".join(
        dumps(config_fields(configs[row.config]) | {"class": letters.get(row.key)} | to_dict(row))
        + "\n"
        for row in record.results
    )
