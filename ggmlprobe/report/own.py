"""A record as the command that made it prints it."""

from __future__ import annotations

from collections.abc import Callable

from ggmlprobe.record import Record
from ggmlprobe.report import (
    arms,
    markdown,
    matrix,
    model_compare,
    model_locate,
    model_ops,
    model_speculate,
)

OF: tuple[tuple[Callable[[Record], bool], Callable[[Record], str]], ...] = (
    (lambda record: bool(record.locations), model_locate.table),
    (lambda record: bool(record.graph_ops), model_ops.table),
    (lambda record: bool(record.speculated), model_speculate.table),
    (lambda record: record.cells is not None, model_compare.table),
    (lambda record: any(config.arm for config in record.configs), arms.table),
    (lambda record: record.command.split()[1:2] == ["sweep"], matrix.table),
)
"""What tells a record of each command, and its table; any other is a plain run's."""


def renderer(record: Record) -> Callable[[Record], str]:
    """The table of the command that made the record."""
    return next((table for mine, table in OF if mine(record)), markdown.table)


def is_plain(record: Record) -> bool:
    """Whether every row of the record stands in its own table, as `op` prints it."""
    return renderer(record) is markdown.table and not record.bisections and record.ab is None
