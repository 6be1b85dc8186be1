"""Rows of a run, in any order, to a record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ggmlprobe.record import AxisRun, Bisection, CaseClasses, Header, Record, Result, Row

Key = tuple[str, str, int]


@dataclass
class Gathered:
    """Rows so far; of two for the same place the later one holds.

    Attributes:
        finished: rows of an earlier run, by Result.key. classes: its classes.
    """

    finished: Mapping[Key, Result] = field(default_factory=dict)
    results: dict[Key, Result] = field(default_factory=dict)
    classes: dict[tuple[str, str], CaseClasses] = field(default_factory=dict)
    runs: list[AxisRun] = field(default_factory=list)
    bisections: list[Bisection] = field(default_factory=list)

    def take_classes(self, classes: Iterable[CaseClasses]) -> None:
        """Take classes of an earlier run."""
        self.classes |= {(row.config, row.case): row for row in classes}

    def take(self, row: Row) -> Result | CaseClasses | None:
        """Take a row; returned where a journal of the earlier run does not hold it yet."""
        if isinstance(row, AxisRun):
            self.runs.append(row)
        elif isinstance(row, Bisection):
            self.bisections.append(row)
        elif isinstance(row, CaseClasses):
            known = self.classes.get((row.config, row.case)) == row
            self.classes[row.config, row.case] = row
            return None if known else row
        elif isinstance(row, Result):
            self.results[row.key] = row
            return None if self.finished.get(row.key) is row else row
        return None

    def record(self, header: Header, interrupted: bool) -> Record:
        """Everything so far."""
        places = dict.fromkeys((config, case) for config, case, _ in self.results)
        order = {place: i for i, place in enumerate(places)}
        return Record(
            header.schema, header.command, header.configs, header.environment,
            # a width that died has its row before narrower ones that ran on
            sorted(self.results.values(), key=lambda r: (order[r.config, r.case], r.width)),
            [self.classes[place] for place in order if place in self.classes],
            self.runs, self.bisections, interrupted=interrupted,
        )  # fmt: skip
