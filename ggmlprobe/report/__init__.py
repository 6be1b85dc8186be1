"""Records as text, one small module per format, and the one way to write them to a file."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from ggmlprobe.errors import FileExists, UsageError
from ggmlprobe.record import Record
from ggmlprobe.report import csv, json, jsonl, markdown, model_compare, model_rows

__all__ = ["EXPORTS", "FORMATS", "check", "write"]

Render = Callable[[Record], str]


def _either(results: Render, comparisons: Render) -> Render:
    """Renders a record by what it holds: only `model compare` counts cells."""
    return lambda record: (results if record.cells is None else comparisons)(record)


FORMATS: Mapping[str, Render] = {
    "md": _either(markdown.table, model_compare.table),
    "csv": _either(csv.render, model_rows.render_csv),
    "json": json.render,
    "jsonl": _either(jsonl.render, model_rows.render_jsonl),
}
"""Name of a format, as ``-o`` takes it, to what renders a record."""


def _junit(record: Record) -> str:
    # no other command needs its library
    text: str = importlib.import_module("ggmlprobe.report.junit").render(record)
    return text


EXPORTS: Mapping[str, Render] = {**FORMATS, "junit": _junit}
"""The same for files."""


def check(path: Path, force: bool = False) -> None:
    """Refuse a path that :func:`write` would refuse, before the run that makes its text.

    Raises:
        FileExists: the file is there and ``force`` was not given.
        UsageError: it is a directory, or its directory is missing or not writable.
    """
    path = Path(path)
    try:
        _check(path, path.parent, force)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}: name a file elsewhere") from error


def _check(path: Path, parent: Path, force: bool) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a directory: name a file in it")
    if not parent.is_dir():
        raise UsageError(f"{parent} is no directory: make it first (mkdir -p {parent})")
    if path.exists() and not _is_device(path) and not force:
        raise FileExists(f"{path} exists: --force replaces it, or name another file")
    if not os.access(path if _is_device(path) else parent, os.W_OK):
        raise UsageError(f"{parent} is not writable: name a file elsewhere")


def write(path: Path, content: str | bytes, force: bool = False) -> None:
    """Write a report; the file has either its old content or the whole new one, never a part.

    Args:
        path: the file; what a symbolic link points to is replaced, not the link.
        content: text, written as UTF-8, or bytes.
        force: replace an existing file.

    Raises:
        FileExists: the file is there and ``force`` was not given.
        UsageError: the file cannot be written.
    """
    check(path, force)
    data = content.encode() if isinstance(content, str) else content
    target = Path(os.path.realpath(path))
    try:
        if _is_device(target):
            target.write_bytes(data)
        else:
            _replace(target, data)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}: name another file") from error


def _is_device(path: Path) -> bool:
    """Whether it is something, like /dev/stdout or a pipe, that must not be renamed over."""
    return path.exists() and not path.is_file()


def _replace(target: Path, data: bytes) -> None:
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with beside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
