"""One case of a record with all its rows: what every reproducer is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ggmlprobe.errors import UsageError
from ggmlprobe.record import Config, Record, Result
from ggmlprobe.report.rows import configs_by_id
from ggmlprobe.report.text import ascii_line, ranges

LARGEST = 2**31 - 1
COMMAND_LENGTH = 300


@dataclass(frozen=True)
class Case:
    """A case in one config.

    Attributes:
        number: as --case takes it. command: what made the record.
        env: variables that ggml reads; None is one to take away.
        rows: by width, ascending; at least one.
    """

    number: int
    command: str
    env: Mapping[str, str | None]
    config: Config
    rows: tuple[Result, ...]

    @property
    def op(self) -> str:
        """ggml's name of the op."""
        return self.rows[0].op

    @property
    def name(self) -> str:
        """The case's own string, in one line of ASCII."""
        return ascii_line(self.rows[0].case)

    @property
    def compared(self) -> tuple[Result, ...]:
        """Rows with a comparison behind them."""
        return tuple(row for row in self.rows if row.seeds)

    @property
    def differing(self) -> tuple[int, ...]:
        """Widths at which a column differs."""
        return tuple(row.width for row in self.rows if row.columns_differing)

    def value(self, name: str, kind: type) -> Any:
        """A parameter.

        Raises:
            UsageError: it is not there, or of another type.
        """
        value = self.rows[0].params.get(name)
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise self.refused(f"its parameter {name} is {value!a}")
        return value

    def integer(self, name: str, least: int = 1) -> int:
        """An integer parameter from `least` to 2^31 - 1."""
        value: int = self.value(name, int)
        if not least <= value <= LARGEST:
            raise self.refused(f"its parameter {name} is {value}")
        return value

    def integers(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """A list of as many integers as the default has, none below its least."""
        value = self.rows[0].params.get(name, list(default))
        whole = isinstance(value, list) and all(
            type(item) is int and min(default) <= item <= LARGEST for item in value
        )
        if not isinstance(value, list) or not whole or len(value) != len(default):
            raise self.refused(f"its parameter {name} is {value!a}")
        return tuple(int(item) for item in value)

    def refuse_elsewhere(self) -> None:
        """Refuse what did not run on one device of its own machine.

        Raises:
            UsageError: says why.
        """
        if self.config.device.endpoint:
            raise self.refused("it ran on a server: make one from a run on that machine itself")
        if any(row.backends for row in self.rows):
            raise self.refused("nodes were scheduled: make one from a run on a single device")

    def refused(self, why: str) -> UsageError:
        """The error of a case that a reproducer cannot be made of."""
        return UsageError(f"no reproducer of case {self.number}: {ascii_line(why)}")

    def found(self) -> list[str]:
        """What the run found, in lines of widths and columns."""
        texts: dict[str, list[int]] = {}
        for row in self.rows:
            if not row.seeds:
                what = ascii_line(row.verdict)
            elif not row.columns_differing:
                what = "no column differs"
            elif len(row.columns_differing) == row.width:
                what = "every column differs"
            else:
                what = f"columns {ranges(row.columns_differing)} differ"
            texts.setdefault(what, []).append(row.width)
        return [f"width {ranges(widths)}: {what}" for what, widths in texts.items()]


def cases_of(record: Record) -> list[Case]:
    """Every case in every config, in the order of the record, numbered from 1.

    Raises:
        UsageError: a record without results of an op.
    """
    if not record.results:
        raise UsageError("no results in this record: make it with `ggmlprobe op` or `preset run`")
    configs, places = configs_by_id(record), dict[tuple[str, str], list[Result]]()
    for row in record.results:
        places.setdefault((row.config, row.case), []).append(row)
    return [
        Case(
            number, ascii_line(record.command)[:COMMAND_LENGTH],
            {**record.environment.env, **configs[config].env}, configs[config],
            tuple(sorted(rows, key=lambda row: row.width)),
        )
        for number, ((config, _), rows) in enumerate(places.items(), 1)
    ]  # fmt: skip


def chosen(cases: list[Case], number: int | None) -> Case:
    """The case of that number; without one the first in which a column differs.

    Raises:
        UsageError: no such case.
    """
    if number is None:
        return next((case for case in cases if case.differing), cases[0])
    if not 1 <= number <= len(cases):
        raise UsageError(f"--case {number} is not from 1 to {len(cases)}: --list shows them")
    return cases[number - 1]
