"""The result of a run, defined once: every field, its meaning, its JSON and its JSON Schema.

``docs/record.md`` and ``record.schema.json`` are made from the definitions here (``field_table``
and ``schema``). A float that would be NaN or infinite is null in JSON.
"""

from __future__ import annotations

from typing import Any

from ggmlprobe.codec import dumps, field_table, from_dict, json_schema, parse, to_dict
from ggmlprobe.environment import Environment, collect_environment
from ggmlprobe.model.located import LOCATE_DATACLASSES, GraphOp, Location
from ggmlprobe.model.record import MODEL_DATACLASSES, BlockComparison, ModelSettings
from ggmlprobe.model.speculated import SPECULATE_DATACLASSES, Speculated, SpeculationTotal
from ggmlprobe.record.bisection import AxisRun, Bisection
from ggmlprobe.record.config import Config, DeviceRecord, LibraryInfo
from ggmlprobe.record.reading import check_references, check_schema, load, loads
from ggmlprobe.record.result import CaseClasses, Kernel, Result, SeedResult
from ggmlprobe.record.run import SCHEMA_VERSION, Header, Record, Row
from ggmlprobe.record.timing import Slowdown, TimeStats, Timing

__all__ = [
    "SCHEMA_VERSION",
    "AxisRun",
    "Bisection",
    "BlockComparison",
    "CaseClasses",
    "Config",
    "DeviceRecord",
    "Environment",
    "GraphOp",
    "Header",
    "Kernel",
    "LibraryInfo",
    "Location",
    "ModelSettings",
    "Record",
    "Result",
    "Row",
    "SeedResult",
    "Slowdown",
    "Speculated",
    "SpeculationTotal",
    "TimeStats",
    "Timing",
    "check_references",
    "check_schema",
    "collect_environment",
    "dumps",
    "field_table",
    "from_dict",
    "load",
    "loads",
    "parse",
    "schema",
    "to_dict",
]

DATACLASSES: tuple[type, ...] = (
    Record,
    Config,
    LibraryInfo,
    DeviceRecord,
    Environment,
    Result,
    SeedResult,
    Kernel,
    TimeStats,
    CaseClasses,
    AxisRun,
    Bisection,
    Slowdown,
    *MODEL_DATACLASSES,
    *LOCATE_DATACLASSES,
    *SPECULATE_DATACLASSES,
    Timing,
)
"""In the order of docs/record.md."""


def schema() -> dict[str, Any]:
    """The JSON Schema of a record; ``record.schema.json`` is this."""
    return json_schema(Record, "ggmlprobe record", "ggmlprobe/record.schema.json")
