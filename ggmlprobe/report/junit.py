"""JUnit XML for CI systems: a suite for each config, a test case for each row."""

from __future__ import annotations

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from ggmlprobe.record import Config, Record, Result
from ggmlprobe.report.notes import whole
from ggmlprobe.report.rows import CONFIG_COLUMNS, device_label, library_label
from ggmlprobe.report.text import ascii_line, number, ranges
from ggmlprobe.verdict import FINDINGS, Verdict

SETTINGS = ("device", "buft", "threads", "threads_batch", "env", "arm")
ENDED = (Verdict.CRASH, Verdict.TIMEOUT, Verdict.OOM)


def render(record: Record) -> str:
    """A finding is a failure, a row whose child died an error, one that cannot run is skipped."""
    xml = JUnitXml("ggmlprobe")
    for config in record.configs:
        xml.add_testsuite(_suite(record, config))
    xml.update_statistics()
    text: str = xml.tostring().decode("utf-8")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _suite(record: Record, config: Config) -> TestSuite:
    suite = TestSuite(ascii_line(f"{config.id} {device_label(config)}"))
    suite.timestamp = ascii_line(record.environment.date)
    suite.add_property("command", ascii_line(record.command))
    suite.add_property("library", library_label(config.library))
    for name in SETTINGS:
        suite.add_property(name, CONFIG_COLUMNS[name](config))
    for row in record.results:
        if row.config == config.id:
            suite.add_testcase(_case(row))
    return suite


def _case(row: Result) -> TestCase:
    name = f"{ascii_line(row.case)} width={row.width}"
    case = TestCase(name, f"ggmlprobe.{ascii_line(row.op)}", row.compute_seconds or 0.0)
    if row.verdict == Verdict.UNSUPPORTED:
        case.result = [Skipped(whole(row))]
    elif row.verdict in ENDED:
        case.result = [Error(whole(row) or row.verdict, row.verdict)]
    elif row.verdict in FINDINGS:
        case.result = [Failure(_found(row), row.verdict)]
    return case


def _found(row: Result) -> str:
    numbers = {
        "max_ulp": row.max_ulp, "max_err_scaled": row.max_err_scaled,
        "nmse_serial": row.nmse_serial, "nmse_width": row.nmse_width,
        "nan": row.nan or None, "unwritten": row.unwritten or None,
    }  # fmt: skip
    parts = [f"columns {ranges(row.columns_differing) or 'none'}"]
    parts += [f"{name} {number(value)}" for name, value in numbers.items() if value is not None]
    return f"{row.verdict}: {', '.join(parts)}"
