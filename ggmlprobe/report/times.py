"""Times in the table, and what staying in the serial class costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ggmlprobe.dispatch.price import Price, Ratio, price_of_serial
from ggmlprobe.record import Record, Result, TimeStats
from ggmlprobe.report.table import Cell, Layout, pipe_table
from ggmlprobe.report.text import NONE, ascii_line, number, ranges

MIB = 2**20
MICRO = 1e6


def time_cells(record: Record) -> dict[str, Cell]:
    """Time per token with half its quartiles' distance, rates, and the token against width 1."""
    if not any(row.time for row in record.results):
        return {}
    alone = {(row.config, row.case): row.time for row in record.results if row.width == 1}

    def against(time: TimeStats, row: Result) -> str:
        one = alone.get((row.config, row.case))
        return number(time.median_seconds / row.width / one.median_seconds) if one else NONE

    return {
        "us/token": _cell(lambda t, row: plain(MICRO * t.median_seconds / row.width)),
        "+/-%": _cell(
            lambda t, _: number(50 * (t.high_seconds - t.low_seconds) / t.median_seconds)
        ),
        "GB/s": _cell(lambda t, _: number(t.gbps)),
        "GFLOP/s": _cell(lambda t, _: number(t.gflops)),
        "x width 1": _cell(against),
    }


def _cell(text: Callable[[TimeStats, Result], str]) -> Cell:
    return lambda row: text(row.time, row) if row.time else NONE


def plain(value: float) -> str:
    """Three significant digits without an exponent, as far as a million."""
    return f"{float(f'{value:.3g}'):g}"


def interval(ratio: Ratio) -> str:
    """Low and high end, as `1.38-1.47`."""
    return f"{ratio.low:.3f}-{ratio.high:.3f}"


def time_lines(record: Record) -> list[str]:
    """How times were taken, and what is uncertain about some of them."""
    times = [row.time for row in record.results if row.time]
    lines = []
    if times:
        ops, graphs = _span(t.copies for t in times), _span(t.repeats for t in times)
        lines.append(
            f"- time: median of {graphs} graphs of {ops} ops, +/- half the distance of quartiles; "
            f"weights: {_weights(record)}"
        )
    return lines + _notes(record)


def _weights(record: Record) -> str:
    """Which weights were read, and the cache that was to be overcome, of each device."""
    names = {config.id: config.device.name for config in record.configs}
    by_device: dict[str, list[TimeStats]] = {}
    for row in record.results:
        if row.time:
            by_device.setdefault(ascii_line(names[row.config]), []).append(row.time)
    texts: dict[str, list[str]] = {}
    for device, times in by_device.items():
        read, cache = max(t.weights_bytes for t in times), max(t.cache_bytes for t in times)
        state = "hot: one set of weights" if times[0].hot else f"{read / MIB:.3g} MiB in turn"
        texts.setdefault(f"{state}, cache {cache / MIB:.3g} MiB", []).append(device)
    if len(texts) == 1:
        return next(iter(texts))
    return "; ".join(f"{', '.join(devices)} {text}" for text, devices in texts.items())


def _notes(record: Record) -> list[str]:
    several = len(record.configs) > 1
    notes: dict[tuple[str, str], list[int]] = {}
    for row in record.results:
        if row.time_note:
            place = f" in {row.config}" if several else ""
            notes.setdefault((ascii_line(row.time_note), place), []).append(row.width)
    return [f"- time at width {ranges(at)}{place}: {note}" for (note, place), at in notes.items()]


def _span(values: Iterable[int]) -> str:
    least, most = (f(values) for values in [list(values)] for f in (min, max))
    return str(least) if least == most else f"{least}-{most}"


def price_table(record: Record, layout: Layout) -> str:
    """What each width outside the serial class costs if it is split into widths inside of it."""
    rows = {row.key: row for row in record.results}
    priced: list[tuple[Result, Price]] = []
    for entry in record.classes:
        samples = {
            row.width: row.time.samples
            for row in record.results
            if (row.config, row.case) == (entry.config, entry.case) and row.time
        }
        samples = {width: seconds for width, seconds in samples.items() if len(seconds) > 1}
        for price in price_of_serial(samples, entry.groups):
            priced.append((rows[entry.config, entry.case, price.width], price))
    if not priced:
        return ""
    columns = {name: [cell(row) for row, _ in priced] for name, cell in layout.varying.items()}
    columns["width"] = [str(price.width) for _, price in priced]
    columns["in class A"] = ["+".join(map(str, price.parts)) for _, price in priced]
    columns["x time"] = [f"{price.ratio.ratio:.3f}" for _, price in priced]
    columns["95 %"] = [interval(price.ratio) for _, price in priced]
    return pipe_table(columns)
