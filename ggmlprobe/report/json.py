"""The record itself as JSON; one line per config, result and class entry, so that files diff."""

from __future__ import annotations

from typing import Any

from ggmlprobe.record import Record, dumps, to_dict


def render(record: Record) -> str:
    """Strict JSON, ASCII only, that ``record.loads`` reads back."""
    entries = [f"{dumps(name)}: {_value(value)}" for name, value in to_dict(record).items()]
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _value(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n " + ",\n ".join(dumps(item) for item in value) + "\n]"
    return dumps(value)
