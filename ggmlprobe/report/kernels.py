"""Kernels in the table, and dispatch classes beside the width classes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from ggmlprobe.dispatch.classes import other_kernels_same_bits, same_kernels_other_bits
from ggmlprobe.record import CaseClasses, Kernel, Record, Result
from ggmlprobe.report.table import Cell
from ggmlprobe.report.text import NONE, ascii_line, ranges

SHOWN = 0.1
"""Share from which on a kernel is in the table; all of them are in the JSON."""
MOST = 3
"""As many of them, the largest first."""
QUALIFIER_ARGUMENTS = 12
ARGUMENTS = 60
PAIRS_SHOWN = 8
OUTSIDE_SHOWN = 3
OPEN, CLOSE = "<(", ">)"


def kernel_cells(record: Record) -> dict[str, Cell]:
    """The column of kernels, if a row has any, or says why not."""
    if any(row.kernels for row in record.results):
        return {"kernels": _cell}
    return {}


def _cell(row: Result) -> str:
    shown = [k for k in row.kernels if k.share is None or k.share >= SHOWN]
    return ", ".join(map(_kernel, shown[:MOST])) or NONE


def _kernel(kernel: Kernel) -> str:
    """`name share`, and on a GPU `name grid x block share`."""
    launch = " x ".join(_xyz(size) for size in (kernel.grid, kernel.block) if size)
    share = f"{kernel.share:.0%}" if kernel.share is not None else ""
    return " ".join(filter(None, [ascii_line(short(kernel.name)), launch, share]))


def _xyz(size: list[int]) -> str:
    return "(" + ",".join(map(str, size)) + ")"


def _at_depth_0(text: str) -> Iterator[tuple[int, str]]:
    """Characters outside all angle brackets and parentheses, with their places."""
    depth = 0
    for at, char in enumerate(text):
        if char in CLOSE and depth:
            depth -= 1
        if depth == 0:
            yield at, char
        if char in OPEN:
            depth += 1


def short(name: str) -> str:
    """A demangled name without return type and arguments; long template arguments become `...`."""
    text = re.sub(r"\(anonymous namespace\)::| \[clone [^]]*\]", "", name)
    text = text[: next((at for at, char in _at_depth_0(text) if char == "("), len(text))]
    text = text[max((at for at, char in _at_depth_0(text) if char == " "), default=-1) + 1 :]
    colons = [at for at, char in _at_depth_0(text) if char == ":"]
    last = colons[-1] + 1 if colons else 0
    return _elided(text[:last], QUALIFIER_ARGUMENTS) + _elided(text[last:], ARGUMENTS)


def _elided(text: str, longest: int) -> str:
    """The text with every outermost template argument list that is too long as `<...>`."""
    opens = [at for at, char in _at_depth_0(text) if char == "<"]
    closes = [at for at, char in _at_depth_0(text) if char == ">"]
    for start, end in reversed(list(zip(opens, closes, strict=False))):
        if end - start - 1 > longest:
            text = f"{text[:start]}<...{text[end:]}"
    return text


def dispatch_text(entry: CaseClasses) -> str:
    """The dispatch classes of a case, and where they and the width classes part."""
    parts = [" | ".join(map(ranges, entry.dispatch))]
    other_bits = same_kernels_other_bits(entry.dispatch, entry.groups, entry.pairs)
    for what, pairs in (
        ("same kernels, different bits", other_bits),
        ("different kernels, same bits", other_kernels_same_bits(entry.dispatch, entry.groups)),
    ):
        if pairs:
            more = len(pairs) - PAIRS_SHOWN
            listed = ", ".join(f"{low} and {high}" for low, high in pairs[:PAIRS_SHOWN])
            parts.append(f"{what}: {listed}{f' and {more} more' if more > 0 else ''}")
    return "; ".join(parts)


def kernel_lines(record: Record) -> list[str]:
    """How kernels were found, and what is uncertain about some of them."""
    sampled = [[k.samples for k in row.kernels if k.samples is not None] for row in record.results]
    # no width of a GPU is sampled
    counts = [sum(samples) for samples in sampled if samples]
    lines = []
    if any(counts):
        outside: Counter[str] = Counter()
        for row in record.results:
            outside.update(row.samples_dropped)
        total = sum(counts) + outside.total()
        listed = ", ".join(
            f"{ascii_line(name)} {count / total:.0%}"
            for name, count in outside.most_common(OUTSIDE_SHOWN)
        )
        span = f"{min(counts)}-{max(counts)}" if min(counts) < max(counts) else str(counts[0])
        lines.append(
            f"- kernels: share of {span} samples in the library at each width, none of them while "
            f"verdicts were taken; dropped, of all samples: {listed or 'none'}"
        )
    return lines + _notes(record)


def _notes(record: Record) -> list[str]:
    """What is uncertain, with its widths, and its configs where other ones have no such note."""
    notes: dict[str, list[Result]] = {}
    for row in record.results:
        for note in filter(None, (row.kernels_note or "").split("; ")):
            notes.setdefault(ascii_line(note), []).append(row)
    configs = {row.config for row in record.results}
    lines = []
    for note, rows in notes.items():
        noted = {row.config: None for row in rows}
        place = "" if noted.keys() == configs else f" in {', '.join(noted)}"
        lines.append(f"- kernels at width {ranges(row.width for row in rows)}{place}: {note}")
    return lines
