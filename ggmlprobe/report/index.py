"""results/README.md: a line for each committed run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from ggmlprobe import record as records
from ggmlprobe.errors import UsageError
from ggmlprobe.record import Record
from ggmlprobe.report.rows import library_label
from ggmlprobe.report.table import TAG, command_line, pipe_table
from ggmlprobe.report.text import NONE, ascii_line
from ggmlprobe.verdict import Verdict

NAME = "README.md"
MARK = "<!-- written by `ggmlprobe report`; do not edit -->"


def index(folder: Path) -> str:
    """The Markdown of the runs below a folder, by path.

    Args:
        folder: its .json files are records; what begins with a dot is left out.

    Raises:
        RecordError: a file is no record.
        UsageError: there is none.
    """
    found = sorted(path.relative_to(folder) for path in folder.rglob("*.json"))
    paths = [path for path in found if not any(part.startswith(".") for part in path.parts)]
    if not paths:
        raise UsageError(f"{folder} has no .json file: write runs there with --export-json")
    runs = {path: records.load(folder / path) for path in paths}
    columns = {
        "run": [_link(folder, path) for path in runs],
        "date": [ascii_line(run.environment.date[:10]) for run in runs.values()],
        "device": [_each(c.device.description for c in run.configs) for run in runs.values()],
        "library": [_each(library_label(c.library) for c in run.configs) for run in runs.values()],
        "op": [_ops(run) for run in runs.values()],
        "verdicts": [verdicts(run) for run in runs.values()],
        "command": [command_line(run.command) for run in runs.values()],
    }
    return f"{MARK}\n\n# Results\n\n{pipe_table(columns)}\n"


def is_own(path: Path) -> bool:
    """Whether a file is an index that was written here, so that it may be replaced."""
    return path.is_file() and path.read_bytes().startswith(MARK.encode())


def _link(folder: Path, path: Path) -> str:
    """To the table beside the record where there is one, else to the record."""
    table = path.with_suffix(".md")
    target = table if (folder / table).is_file() else path
    name = TAG.sub(r"\<", ascii_line(path.with_suffix("").as_posix()))
    name = name.replace("[", r"\[").replace("]", r"\]")
    return f"[{name}]({quote(target.as_posix())})"


def _each(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(map(ascii_line, texts))) or NONE


def _ops(run: Record) -> str:
    ops = _each(row.op for row in run.results)
    return _each(c.model.description for c in run.configs if c.model) if ops == NONE else ops


def verdicts(run: Record) -> str:
    """How many rows have each verdict, the worst first; of models what came out, too."""
    counts = Counter(row.verdict for row in run.results)
    counts.update(row.verdict for row in run.comparisons)
    counts.update(row.verdict for row in run.locations)
    counts.update(row.verdict for row in run.speculated)
    parts = [f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict]]
    if run.cells is not None:
        parts.append(f"{run.cells_differing} of {run.cells} cells differ, {run.flips} flips")
    return ", ".join(parts) or NONE
