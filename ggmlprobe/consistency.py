"""What a record must fulfil besides its schema, so that whatever reads it can count on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ggmlprobe.errors import RecordError

if TYPE_CHECKING:
    from ggmlprobe.record import Record

SIDES = 2  # of `ab`
LARGEST = 1e12  # seconds, or ratio of seconds
MOST_VALUES = 2**20  # of a bisected axis


def check_values(record: Record) -> None:
    """Refuse what no run gives, though every field has its type.

    Raises:
        RecordError: one line naming the place.
    """
    for place, fine, expected in _claims(record):
        if not fine:
            raise RecordError(f"{place}: expected {expected}")


def _claims(record: Record) -> Iterator[tuple[str, bool, str]]:
    """(place, whether it is as expected, what is expected) of everything that is checked."""
    for i, row in enumerate(record.results):
        if row.time is not None:
            time = row.time
            seconds = (time.median_seconds, time.low_seconds, time.high_seconds, *time.samples)
            yield f"results[{i}].time", _sane(seconds), "times above 0 that a run can take"
    for i, entry in enumerate(record.classes):
        full = bool(entry.groups) and all(entry.groups)
        yield f"classes[{i}].groups", full, "at least one width in each of at least one group"
        yield f"classes[{i}].pairs", _long(entry.pairs, 2), "lists of two widths"
    yield from _of_bisections(record)
    if record.ab is not None:
        yield "configs", len(record.configs) == SIDES, "two, since ab is there"
        yield "results", bool(record.results), "some, since ab is there"
        for i, each in enumerate(record.ab):
            ratios = (each.ratio, each.low, each.high, each.null, each.null_low, each.null_high)
            yield f"ab[{i}]", _sane(ratios), "ratios above 0 of times a run can take"


def _of_bisections(record: Record) -> Iterator[tuple[str, bool, str]]:
    places = {(row.config, row.case) for row in record.results}
    for i, run in enumerate(record.runs):
        yield f"runs[{i}].case", (run.config, run.case) in places, "a case that has results"
    for i, found in enumerate(record.bisections):
        here = f"bisections[{i}]"
        yield f"{here}.case", (found.config, found.case) in places, "a case that has results"
        values = (found.last - found.first) // found.step
        yield here, 0 <= values < MOST_VALUES, f"first to last in less than {MOST_VALUES} steps"
        for name in ("boundaries", "unsettled", "assumed"):
            yield f"{here}.{name}", _long(getattr(found, name), 2), "lists of two values"
        yield f"{here}.periods", _long(found.periods, 3), "lists of a length and two values"


def _sane(values: tuple[float, ...]) -> bool:
    """Whether logarithms of all, and their differences, are far from what overflows."""
    return all(1 / LARGEST < value < LARGEST for value in values)


def _long(lists: list[list[int]], length: int) -> bool:
    return all(len(each) == length for each in lists)
