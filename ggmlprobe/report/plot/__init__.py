"""Pictures of a record, with matplotlib, which is imported when one is drawn."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from ggmlprobe.errors import UsageError
from ggmlprobe.record import Record
from ggmlprobe.report.plot.nothing import NothingToDraw

KINDS = ("classes", "ulp", "time", "flips", "margin")
"""Kinds of pictures."""

FORMS = ("svg", "png")


def form_of(path: Path) -> str:
    """The format a file's name asks for.

    Raises:
        UsageError: neither .svg nor .png.
    """
    form = path.suffix.lower().removeprefix(".")
    if form not in FORMS:
        raise UsageError(f"{path} is no picture's name: end it in .svg or .png")
    return form


def image(record: Record, kind: str, form: str) -> bytes:
    """A picture as a file's content; the same record gives the same bytes.

    Args:
        kind: in `KINDS`.
        form: svg or png; the background is white.

    Raises:
        UsageError: matplotlib is missing, or the record has nothing of this kind.
    """
    return _drawn(record, kind, form, transparent=False)


def inline(record: Record, kind: str) -> str | None:
    """A picture as SVG without a background, or None where the record has nothing to draw.

    Raises:
        UsageError: matplotlib is missing.
    """
    try:
        return _drawn(record, kind, "svg", transparent=True).decode()
    except NothingToDraw:
        return None


def _drawn(record: Record, kind: str, form: str, transparent: bool) -> bytes:
    try:
        draw = import_module("ggmlprobe.report.plot.draw")
    except ModuleNotFoundError as error:
        raise UsageError("pictures need matplotlib: pip install 'ggmlprobe[plot]'") from error
    content: bytes = draw.drawn(record, kind, form, transparent)
    return content
