"""--baseline: findings that an earlier run had are expected."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ggmlprobe.cli.options import ProbeOptions
from ggmlprobe.errors import NotComparable, UsageError
from ggmlprobe.record import Config, Record, load
from ggmlprobe.report.changes import News, check_device, news
from ggmlprobe.report.text import ascii_line
from ggmlprobe.verdict import FINDINGS


class Baseline:
    """A record whose findings are known.

    Raises:
        RecordError: the file is no record.
        UsageError: it is one without results of ops.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record = load(path)
        if not self.record.results:
            raise UsageError(f"{path}: no results of ops in it: name a run of the same command")

    @classmethod
    def of(cls, options: ProbeOptions) -> Baseline | None:
        """What --baseline names; None without it.

        Raises:
            UsageError: --git-bisect, whose statuses mean something else.
        """
        if options.baseline is not None and options.git_bisect:
            raise UsageError("--baseline excludes --git-bisect")
        return None if options.baseline is None else cls(options.baseline)

    def check(self, configs: Sequence[Config], seeds: Sequence[int]) -> None:
        """Refuse, before a run, to compare it with that of another device or other seeds.

        Raises:
            NotComparable: one line.
        """
        again = "make the baseline here, with this command"
        try:
            check_device(self.record.configs, configs, again)
        except NotComparable as error:
            raise NotComparable(f"{self.path} is A, this run B: {error}") from error
        known = {tuple(part.seed for part in row.seeds) for row in self.record.results} - {()}
        if known and known != {tuple(seeds)}:
            had = " or ".join(str(list(each)) for each in sorted(known))
            raise NotComparable(f"{self.path} has seeds {had}, not {list(seeds)}: {again}")

    def judge(self, run: Record) -> int:
        """Name on stderr what the baseline does not have; 1 where there is such, else 0."""
        found = news(self.record, run)
        for each in found:
            click.echo(f"baseline: {_text(each)}", err=True)
        known = sum(row.verdict in FINDINGS for row in run.results)
        known -= sum(each.now in FINDINGS for each in found)
        click.echo(f"baseline: {known} known, {len(found)} not as in {self.path}", err=True)
        return int(bool(found))


def _text(each: News) -> str:
    place = f"width {each.width} of {ascii_line(each.case)} in {each.config}"
    if each.what == "new":
        return f"new: {each.now} at {place}"
    return f"{each.what}: {each.was} at {place}" + (f", now {each.now}" if each.now else "")
