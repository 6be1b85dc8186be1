"""Two records of the same cases: what changed in each row, and which findings are known.

Configs of two records belong together if their device and settings are equal; the library is what
may differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ggmlprobe.dispatch.price import Ratio, median, over
from ggmlprobe.errors import NotComparable
from ggmlprobe.record import Config, Record, Result, to_dict
from ggmlprobe.report.rows import class_letters
from ggmlprobe.report.text import ascii_line
from ggmlprobe.verdict import FINDINGS

Key = tuple[str, str, int]
FORCE = "--force compares what there is all the same"


@dataclass(frozen=True)
class Change:
    """One row on both sides.

    Attributes:
        row: side B's row; side A's in B's config where B has none.
        before: of each thing that changed what it was; after: what it is now.
        time: B over A, where both were timed.
    """

    row: Result
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    time: Ratio | None = None


@dataclass(frozen=True)
class Pairs:
    """Two records side by side.

    Attributes:
        a: with the ids of B's configs, as far as there are such. b: as it is.
        rows_a, rows_b: rows by (config id, case, width).
    """

    a: Record
    b: Record

    @property
    def rows_a(self) -> dict[Key, Result]:
        """Side A's rows."""
        return {row.key: row for row in self.a.results}

    @property
    def rows_b(self) -> dict[Key, Result]:
        """Side B's rows."""
        return {row.key: row for row in self.b.results}

    def only(self, side: str) -> list[Result]:
        """Rows that just one side has."""
        mine, other = (self.rows_a, self.rows_b)[:: 1 if side == "A" else -1]
        return [row for key, row in mine.items() if key not in other]

    def shared(self) -> Iterator[tuple[Result, Result]]:
        """Rows that both sides have, in B's order."""
        before = self.rows_a
        for key, row in self.rows_b.items():
            if key in before:
                yield before[key], row


def settings(config: Config, device: bool = True) -> tuple[Any, ...]:
    """What makes a config the same in another record."""
    env = tuple(sorted((name, value or "") for name, value in config.env.items()))
    own = (config.buft, config.threads, config.threads_batch, env, config.arm)
    return (config.device.name, config.device.description, *own) if device else own


def _numbered(configs: Sequence[Config], device: bool) -> dict[tuple[Any, ...], str]:
    """Ids by settings; the nth config of the same settings (two libraries) by its number too."""
    found: dict[tuple[Any, ...], str] = {}
    for config in configs:
        key = settings(config, device)
        number = sum(known[0] == key for known in found)
        found[key, number] = config.id
    return found


def paired(a: Record, b: Record, device: bool = True) -> Pairs:
    """Two records, with A's configs named as B's.

    Args:
        device: configs of other devices do not belong together.
    """
    ids = _numbered(b.configs, device)
    names = {old: ids.get(key, f"A {old}") for key, old in _numbered(a.configs, device).items()}

    def renamed(rows: Sequence[Any]) -> list[Any]:
        return [replace(row, config=names[row.config]) for row in rows]

    configs = [replace(config, id=names[config.id]) for config in a.configs]
    return Pairs(
        replace(a, configs=configs, results=renamed(a.results), classes=renamed(a.classes)), b
    )


def check_comparable(pairs: Pairs) -> None:
    """Refuse records of other devices, seeds, cases or settings.

    Raises:
        NotComparable: one line that names the first difference.
    """
    check_device(pairs.a.configs, pairs.b.configs)
    for side, other in (("A", "B"), ("B", "A")):
        alone = pairs.only(side)
        if alone:
            row = alone[0]
            raise NotComparable(
                f"{ascii_line(row.case)} at width {row.width} in {ascii_line(row.config)} "
                f"is not in {other}, "
                f"nor are {len(alone) - 1} more rows: {FORCE}"
            )
    for before, after in pairs.shared():
        was, now = ([part.seed for part in row.seeds] for row in (before, after))
        if was and now and was != now:
            raise NotComparable(f"seeds are {was} in A, {now} in B: {FORCE}")


def check_device(a: Sequence[Config], b: Sequence[Config], more: str = FORCE) -> None:
    """Refuse configs of other devices.

    Raises:
        NotComparable: one line.
    """
    was, now = (
        sorted({f"{c.device.name}, {c.device.description}" for c in configs}) for configs in (a, b)
    )
    if was != now:
        devices = [ascii_line("; ".join(each)) for each in (was, now)]
        raise NotComparable(f"device is {devices[0]} in A, {devices[1]} in B: {more}")


def changes(pairs: Pairs) -> list[Change]:
    """Every row that both sides have, with what changed in it."""
    letters = [class_letters(record) for record in (pairs.a, pairs.b)]
    made = []
    for before, after in pairs.shared():
        was = _facts(before, letters[0].get(before.key))
        now = _facts(after, letters[1].get(after.key))
        moved = [name for name in was if was[name] != now[name]]
        if not (was["kernels"] and now["kernels"]) and "kernels" in moved:
            # a run that did not look for them says nothing of them
            moved.remove("kernels")
        made.append(Change(
            after, {n: was[n] for n in moved}, {n: now[n] for n in moved}, _slower(before, after)
        ))  # fmt: skip
    return made


def _facts(row: Result, letter: str | None) -> dict[str, Any]:
    return {
        "verdict": row.verdict,
        "class": letter,
        "columns": row.columns_differing,
        "max_ulp": row.max_ulp,
        "kernels": [kernel.name for kernel in row.kernels],
    }


def _slower(before: Result, after: Result) -> Ratio | None:
    """Time of B over A; None where one has no two samples."""
    samples = [row.time.samples if row.time else [] for row in (after, before)]
    if min(map(len, samples)) < 2:
        return None
    return over(*map(median, samples))


@dataclass(frozen=True)
class News:
    """A row that is not as the baseline has it.

    Attributes:
        what: "new", "vanished", "changed" or "not probed".
        was: verdict in the baseline, None where it has no such row; now: verdict of this run.
    """

    what: str
    was: str | None
    now: str | None
    config: str
    case: str
    width: int


def news(baseline: Record, run: Record) -> list[News]:
    """What of a run its baseline does not say.

    A finding whose verdict is that of the baseline is known. Columns and ULPs may move.
    """
    pairs = paired(baseline, run)
    was = {key: row.verdict for key, row in pairs.rows_a.items()}
    now = {key: row.verdict for key, row in pairs.rows_b.items()}
    made = []
    for key in dict.fromkeys((*now, *was)):
        before, after = was.get(key), now.get(key)
        what = _what(before, after)
        if what is not None and before != after:
            made.append(News(what, before, after, *key))
    return made


def _what(before: str | None, after: str | None) -> str | None:
    known, found = before in FINDINGS, after in FINDINGS
    if known and found:
        return "changed"
    if known:
        return "not probed" if after is None else "vanished"
    return "new" if found else None


def as_data(pairs: Pairs) -> dict[str, Any]:
    """The comparison as JSON data."""
    rows = [change for change in changes(pairs) if change.before or change.time]
    return {
        side: {"command": record.command, "configs": to_dict(record.configs)}
        for side, record in (("a", pairs.a), ("b", pairs.b))
    } | {
        "rows": [
            {
                "config": change.row.config, "case": change.row.case, "width": change.row.width,
                "before": dict(change.before), "after": dict(change.after),
                "time": None if change.time is None else vars(change.time),
            }
            for change in rows
        ],
        "only_a": [list(row.key) for row in pairs.only("A")],
        "only_b": [list(row.key) for row in pairs.only("B")],
    }  # fmt: skip
