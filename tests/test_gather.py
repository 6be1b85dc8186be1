"""Rows in any order to a record: where a run and its journal meet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ggmlprobe.gather import Gathered
from ggmlprobe.record import CaseClasses, Result


def row(config: str, width: int) -> Result:
    return Result(config, "case", "case", "MUL_MAT", {}, width, "INVARIANT")


def classes(config: str) -> CaseClasses:
    return CaseClasses("case", config, [[1, 2]], True)


def test_classes_of_an_earlier_run_stand_where_their_rows_do() -> None:
    gathered = Gathered()
    gathered.take_classes([classes("c1")])
    for entry in (row("c0", 2), row("c0", 1), classes("c0"), row("c1", 1), row("c1", 2)):
        gathered.take(entry)
    header: Any = SimpleNamespace(schema=2, command="", configs=[], environment=None)
    record = gathered.record(header, interrupted=False)
    assert [each.config for each in record.classes] == ["c0", "c1"]
    assert [(each.config, each.width) for each in record.results] == [
        ("c0", 1), ("c0", 2), ("c1", 1), ("c1", 2),
    ]  # fmt: skip
