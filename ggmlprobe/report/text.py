"""Values as the reports write them: ASCII, one line, short."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

NONE = "-"
DETAIL_WIDTH = 40
PAIR = 2
STEPS = 3


def ascii_line(text: str) -> str:
    """The text in one line of printable ASCII; what is not ASCII is written as an escape."""
    line = " ".join(text.split())
    plain = line.encode("ascii", "backslashreplace").decode()
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in plain)


def number(value: float | None) -> str:
    """An integer in full, any other number with three significant digits."""
    if value is None:
        return NONE
    return str(value) if isinstance(value, int) else f"{value:.3g}"


def ranges(values: Iterable[int]) -> str:
    """Integers in ascending order; ``0-3,7`` bridges no integer that is not among them."""
    runs: list[list[int]] = []
    for value in sorted(set(values)):
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ",".join(_run(run) for run in runs)


def _run(run: Sequence[int]) -> str:
    if len(run) > PAIR:
        return f"{run[0]}-{run[-1]}"
    return ",".join(map(str, run))


def param(value: Any) -> str:
    """A parameter as upstream's case strings have it: ``f16``, ``0.125``, ``[1,1]``."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, list | tuple):
        return "[" + ",".join(param(item) for item in value) + "]"
    return f"{value:g}" if isinstance(value, float) else ascii_line(str(value))


def shortened(text: str) -> str:
    """At most 40 characters of a line."""
    line = ascii_line(text)
    return line if len(line) <= DETAIL_WIDTH else line[: DETAIL_WIDTH - 3].rstrip() + "..."


def steps(values: Iterable[int]) -> str:
    """As `ranges`, and equal steps as --widths takes them: ``1-7,256-1024+256``."""
    left, parts = sorted(set(values)), list[str]()
    while left:
        step = left[1] - left[0] if len(left) > 1 else 1
        count = 1
        while count < len(left) and left[count] - left[count - 1] == step:
            count += 1
        if count >= (PAIR if step == 1 else STEPS) + 1:
            parts.append(f"{left[0]}-{left[count - 1]}" + (f"+{step}" if step > 1 else ""))
        else:
            count = 1
            parts.append(str(left[0]))
        left = left[count:]
    return ",".join(parts)
