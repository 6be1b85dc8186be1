"""llama-bench's range syntax: `1,2,4`, `1-8`, `1-8+2`, `1-64*2`."""

from __future__ import annotations

import re

from ggmlprobe.errors import UsageError

_RANGE = re.compile(r"(\d+)(?:-(\d+)(?:([+*])(\d+))?)?")
LONGEST = 100_000


def parse_range(text: str) -> tuple[int, ...]:
    """Integers named by a list of numbers and ranges, in order, each once.

    Raises:
        UsageError: not that syntax, a range that runs backwards or never ends.
    """
    values: dict[int, None] = {}
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise UsageError(f"'{part}' is no range: write 1,2,4 or 1-8 or 1-8+2 or 1-64*2")
        first, last = int(match[1]), int(match[2] or match[1])
        operator, step = match[3] or "+", int(match[4] or 1)
        if last < first or step < (2 if operator == "*" else 1) or (operator == "*" and not first):
            raise UsageError(f"'{part}' never ends or is empty: write it as FIRST-LAST+STEP")
        while first <= last and len(values) <= LONGEST:
            values[first] = None
            first = first * step if operator == "*" else first + step
    if len(values) > LONGEST:
        raise UsageError(f"'{text}' names more than {LONGEST} values")
    return tuple(values)


def parse_positive(text: str) -> tuple[int, ...]:
    """As `parse_range`, for values that must be at least 1."""
    values = parse_range(text)
    if min(values) < 1:
        raise UsageError(f"'{text}': values must be at least 1")
    return values
