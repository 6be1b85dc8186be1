"""Bisections as tables: classes against the values of an axis, and what was not probed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ggmlprobe.record import Bisection, CaseClasses, Record, Result
from ggmlprobe.report.kernels import short
from ggmlprobe.report.rows import backends_of
from ggmlprobe.report.table import Layout, layout_of, pipe_table
from ggmlprobe.report.text import NONE, ascii_line, number, ranges, steps

SHOWN = 12
AXIS_COLUMNS = {"kv": ("kv", "cells"), "m": ("m",), "k": ("k",), "threads": ("threads",)}
NOT_PROBED = "not probed"

Key = tuple[str, str]


@dataclass
class Line:
    """A row of the table: values of one class, verdict and backend.

    Attributes:
        alike: what all its values share beside the class: verdict, widths of the classes, backend.
        columns, kernels: what its values have of these, each once.
    """

    alike: tuple[str, str, str]
    letters: list[str]
    values: list[int] = field(default_factory=list)
    columns: dict[str, None] = field(default_factory=dict)
    kernels: dict[str, None] = field(default_factory=dict)
    max_err_scaled: float | None = None

    @property
    def name(self) -> str:
        """The class, or the classes of values that each have one of their own."""
        if len(self.letters) == 1:
            return self.letters[0]
        return f"{self.letters[0]}-{self.letters[-1]} (one each)"


class Bisections:
    """The bisections of a record, and what its rows say of them."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.rows: dict[Key, list[Result]] = {}
        for row in record.results:
            self.rows.setdefault((row.config, row.case), []).append(row)
        self.classes = {(entry.config, entry.case): entry for entry in record.classes}
        self.axis = record.bisections[0].axis
        hidden = AXIS_COLUMNS.get(self.axis, ())
        layout = layout_of(record)
        self.varying = {n: c for n, c in layout.varying.items() if n not in hidden}
        self.constant = Layout({}, {n: v for n, v in layout.constant.items() if n not in hidden})

    def table(self) -> str:
        """Every bisection's lines, and a line of what was not probed."""
        columns: dict[str, list[str]] = {}
        for bisection in self.record.bisections:
            for line in self._lines(bisection):
                for name, cell in (self._label(bisection) | self._cells(line)).items():
                    columns.setdefault(name, []).append(cell)
        optional = ("at_widths", "columns", "backend", "max_err_scaled", "kernels")
        return pipe_table(
            {n: c for n, c in columns.items() if n not in optional or set(c) - {NONE}}
        )

    def notes(self) -> list[str]:
        """What was found and what was assumed, some lines for each bisection."""
        several = len(self.record.bisections) > 1
        lines = []
        for bisection in self.record.bisections:
            label = " ".join(f"{n}={v}" for n, v in self._label(bisection).items())
            lead = f"- {label}: " if several and label else "- "
            classes = self.classes.get((bisection.config, bisection.case))
            lines += [lead + text for text in notes(bisection, classes)]
        return lines

    def _label(self, bisection: Bisection) -> dict[str, str]:
        row = self.rows[bisection.config, bisection.case][0]
        return {name: cell(row) for name, cell in self.varying.items()}

    def _cells(self, line: Line) -> dict[str, str]:
        return {
            self.axis: steps(line.values), "class": line.name, "at_widths": line.alike[1],
            "verdict": line.alike[0], "columns": ", ".join(line.columns) or NONE,
            "backend": line.alike[2], "max_err_scaled": number(line.max_err_scaled),
            "kernels": ", ".join(line.kernels) or NONE,
        }  # fmt: skip

    def _lines(self, bisection: Bisection) -> list[Line]:
        runs = [run for run in self.record.runs if run.bisection == bisection.id]
        lines: dict[tuple[str, ...], Line] = {}
        for run in runs:
            rows = self.rows[run.config, run.case]
            if self.axis == "width":
                rows = [row for row in rows if row.width == run.value]
            at_widths = _at_widths(bisection.widths, run.width_classes)
            alike = (run.verdict, at_widths, _backends(rows))
            line = lines.setdefault((run.letter, *alike), Line(alike, [run.letter]))
            line.values.append(run.value)
            self._add(line, rows)
        left = sorted(set(_values(bisection)) - {run.value for run in runs})
        last = [Line((NOT_PROBED, NONE, NONE), [NONE], left)] if left else []
        return _merged(list(lines.values())) + last

    def _add(self, line: Line, rows: Sequence[Result]) -> None:
        """What a value's rows have."""
        for row in rows:
            if self.axis == "width":
                line.columns[_pattern(row)] = None
            line.kernels |= {ascii_line(short(kernel.name)): None for kernel in row.kernels[:1]}
            if row.max_err_scaled is not None:
                line.max_err_scaled = max(row.max_err_scaled, line.max_err_scaled or 0.0)


def _values(bisection: Bisection) -> range:
    return range(bisection.first, bisection.last + 1, bisection.step)


def _at_widths(widths: Sequence[int], classes: Sequence[str]) -> str:
    """Classes with their widths: ``A 1-7; B 8,9``."""
    groups: dict[str, list[int]] = {}
    for width, letter in zip(widths, classes, strict=False):
        groups.setdefault(letter, []).append(width)
    return "; ".join(f"{letter} {ranges(group)}" for letter, group in groups.items()) or NONE


def _backends(rows: Sequence[Result]) -> str:
    """Backends of a value's rows, each once."""
    return ", ".join(dict.fromkeys(map(backends_of, rows))) or NONE


def _pattern(row: Result) -> str:
    """Which columns differ, said so that it can be the same at every width."""
    differing = row.columns_differing
    if not differing:
        return NONE
    if len(differing) == row.width:
        return "all"
    return "last" if differing == [row.width - 1] else "some"


def _merged(lines: Sequence[Line]) -> list[Line]:
    """Successive values that each have a class of their own, and else look alike, in one line."""
    merged: list[Line] = []
    for line in lines:
        before = merged[-1] if merged else None
        if before is None or before.alike != line.alike or not (_alone(before) and _alone(line)):
            merged.append(line)
            continue
        before.values += line.values
        before.letters += line.letters
        before.columns |= line.columns
        before.kernels |= line.kernels
        before.max_err_scaled = max(before.max_err_scaled or 0.0, line.max_err_scaled or 0.0)
    return merged


def _alone(line: Line) -> bool:
    """Whether each of its values has a class of its own."""
    return len(line.values) == len(line.letters)


def notes(bisection: Bisection, classes: CaseClasses | None) -> list[str]:
    """What was found, and on what assumption."""
    axis = bisection.axis
    first = bisection.first_differing
    lines = [f"boundaries: {_pairs(bisection.boundaries) or 'none seen'}"]
    if first is not None:
        lines.append(f"first differing {axis}: {first}")
    lines += [
        f"classes repeat with period {length} over {axis} {start}-{end}"
        for length, start, end in bisection.periods
    ]
    if bisection.returning and not bisection.periods:
        back = [f"{c} at {_some(at[1:])}" for c, at in bisection.returning.items()]
        lines.append(f"comes back: {'; '.join(back[:SHOWN])}")
    if classes is not None and axis == "width" and not classes.transitive:
        lines.append(f"not transitive, these agree all the same: `{_pairs(classes.pairs, '~')}`")
    if bisection.unsettled:
        lines.append(
            f"not settled, boundaries lie between: {_pairs(bisection.unsettled)} "
            f"(at {bisection.runs} runs the search ends; --exhaustive goes on)"
        )
    return [ascii_line(line) for line in [*lines, *_runs(bisection)]]


def _runs(bisection: Bisection) -> list[str]:
    """How much was run, and what is assumed of the rest."""
    count = f"runs: {bisection.runs} of {bisection.values} values"
    if bisection.runs == bisection.values:
        return [f"{count}: nothing is assumed"]
    lines = [count]
    if bisection.assumed:
        against = "; the period above speaks against it" if bisection.periods else ""
        if not bisection.transitive:
            against += "; classes that are not transitive depend on which values were run"
        lines.append(
            "assumed: no change between two successive probed values of one class, at "
            f"{_pairs(bisection.assumed)}{against} (--exhaustive runs them)"
        )
    return lines


def _pairs(pairs: Sequence[Sequence[int]], mark: str = "|") -> str:
    return _some([mark.join(map(str, pair)) for pair in pairs])


def _some(items: Sequence[object]) -> str:
    text = ", ".join(map(str, items[:SHOWN]))
    more = len(items) - SHOWN
    return f"{text} and {more} more" if more > 0 else text
