"""From a record to the content of a picture's file. Importing this imports matplotlib."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping

from matplotlib import rc_context
from matplotlib.figure import Figure

from ggmlprobe.errors import UsageError
from ggmlprobe.record import Record
from ggmlprobe.report.plot.classmap import draw_classes
from ggmlprobe.report.plot.models import draw_flips, draw_margin
from ggmlprobe.report.plot.numbers import draw_time, draw_ulp
from ggmlprobe.report.plot.style import STYLE

DRAWS: Mapping[str, Callable[[Figure, Record], None]] = {
    "classes": draw_classes,
    "ulp": draw_ulp,
    "time": draw_time,
    "flips": draw_flips,
    "margin": draw_margin,
}
"""Kind of picture to what draws it."""

DPI = 160


def drawn(record: Record, kind: str, form: str, transparent: bool) -> bytes:
    """A picture in the format `form`; the same record gives the same bytes.

    Raises:
        NothingToDraw: the record has nothing of this kind.
        UsageError: its numbers are beyond what a picture can hold.
    """
    try:
        return _content(record, kind, form, transparent)
    except (OverflowError, ValueError) as error:
        # no run makes such numbers, an editor does
        raise UsageError(f"{kind}: numbers of this record cannot be drawn: name another") from error


def _content(record: Record, kind: str, form: str, transparent: bool) -> bytes:
    out = io.BytesIO()
    # ids are hashes of this: pictures of one page must not share any
    with rc_context(STYLE | {"svg.hashsalt": kind}):
        figure = Figure(layout="constrained")
        DRAWS[kind](figure, record)
        metadata = {"Date": None} if form == "svg" else {}
        figure.savefig(out, format=form, dpi=DPI, transparent=transparent, metadata=metadata)
    return out.getvalue()
