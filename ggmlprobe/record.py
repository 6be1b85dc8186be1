"""The result of a run, defined once: every field, its meaning, its JSON and its JSON Schema.

``docs/record.md`` and ``record.schema.json`` are made from the definitions here (``field_table``
and ``schema``). A float that would be NaN or infinite is null in JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ggmlprobe.codec import dumps, field_table, from_dict, json_schema, parse, to_dict
from ggmlprobe.consistency import check_values
from ggmlprobe.environment import Environment, collect_environment
from ggmlprobe.errors import RecordError
from ggmlprobe.model.located import LOCATE_DATACLASSES, GraphOp, Location
from ggmlprobe.model.record import (
    MODEL_DATACLASSES,
    BlockComparison,
    Flip,
    ModelSettings,
    PairStats,
    Rate,
)
from ggmlprobe.model.speculated import SPECULATE_DATACLASSES, Speculated, SpeculationTotal
from ggmlprobe.verdict import Verdict

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
    "Record",
    "Result",
    "Row",
    "SeedResult",
    "Slowdown",
    "Speculated",
    "SpeculationTotal",
    "TimeStats",
    "Timing",
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

SCHEMA_VERSION = 1
"""Raised whenever a field is added, removed or changes its meaning."""

Param = bool | int | float | str | list[bool | int | float | str] | None
"""A value of an op's parameter; lists as in upstream's ``bs=[1,1]``."""


@dataclass(frozen=True)
class LibraryInfo:
    """The libggml that was probed."""

    path: str = field(metadata={"doc": "Directory or file, as it was given."})
    version: str | None = field(metadata={"doc": "ggml's version, where the library exports it."})
    commit: str | None = field(metadata={"doc": "ggml's commit, where the library exports it."})
    origin: str = field(
        metadata={"doc": "What named the library: --lib, GGMLPROBE_LIB, packaged or llama_cpp."}
    )
    stamp: Mapping[str, str] | None = field(
        default=None,
        metadata={"doc": "What ggmlprobe's own build wrote down: source, sha256, compiler, flags."},
    )
    files: list[str] = field(
        default_factory=list,
        metadata={
            "doc": "Names of its loaded files, the chosen backend's among them: "
            "libggml-cpu-haswell.so."
        },
    )
    identity: str | None = field(
        default=None,
        metadata={
            "doc": "Hash of those files and of the libllama beside them, of a file above 8 MiB of "
            "its size and time; a rebuild changes it."
        },
    )


@dataclass(frozen=True)
class DeviceRecord:
    """The ggml device that computed."""

    name: str = field(metadata={"doc": "ggml_backend_dev_name."})
    description: str = field(metadata={"doc": "ggml_backend_dev_description."})
    backend: str = field(metadata={"doc": "Name of the backend the device belongs to."})
    type: str = field(metadata={"doc": "ggml_backend_dev_type: CPU, GPU, IGPU or ACCEL."})
    memory_total: int | None = field(
        default=None, metadata={"doc": "Bytes, as ggml_backend_dev_memory tells them."}
    )
    features: Mapping[str, str] = field(
        default_factory=dict,
        metadata={
            "doc": "Every entry of ggml_backend_get_features; for CUDA also COMPUTE_CAPABILITY and "
            "SM_COUNT from the driver."
        },
    )


@dataclass(frozen=True)
class Config:
    """Library, device and settings that a result was computed with."""

    id: str = field(metadata={"doc": "Name that results refer to: c0, c1, ..."})
    library: LibraryInfo = field(metadata={"doc": "The libggml that was probed."})
    device: DeviceRecord = field(metadata={"doc": "The device that computed."})
    buft: str | None = field(
        metadata={"doc": "Buffer type of the weights; null is the device's default."}
    )
    threads: int = field(metadata={"doc": "Threads at width 1.", "minimum": 1})
    threads_batch: int = field(metadata={"doc": "Threads at widths above 1.", "minimum": 1})
    env: Mapping[str, str | None] = field(
        default_factory=dict,
        metadata={"doc": "Environment variables set for this config; null is one taken away."},
    )
    model: ModelSettings | None = field(
        default=None, metadata={"doc": "The model, for commands on whole models."}
    )
    arm: str | None = field(
        default=None,
        metadata={"doc": "Path that was forced, of `threshold`; null is the library's own choice."},
    )


@dataclass(frozen=True)
class SeedResult:
    """One seed's part of a result."""

    seed: int = field(metadata={"doc": "Seed of the input generator."})
    columns_differing: list[int] = field(
        metadata={"doc": "Tokens whose output differs in bits from their serial reference."}
    )
    elements_differing: int = field(metadata={"doc": "Output elements that differ in bits."})
    max_ulp: int | None = field(
        metadata={"doc": "Largest distance in units in the last place, over finite pairs."}
    )
    hashes: list[str] = field(
        metadata={"doc": "Per token the BLAKE2b-64 hash of its float32 output, in hexadecimal."}
    )
    repeats: bool = field(
        metadata={"doc": "The serial reference and this width each gave the same bits twice."}
    )


@dataclass(frozen=True)
class Kernel:
    """A kernel that ran in a result's op, once or in every call."""

    name: str = field(metadata={"doc": "Symbol, demangled, with template arguments."})
    share: float | None = field(
        default=None, metadata={"doc": "Of the samples (CPU) or of the GPU time, 0 to 1."}
    )
    samples: int | None = field(default=None, metadata={"doc": "CPU samples in it."})
    calls: int | None = field(default=None, metadata={"doc": "Launches per evaluation (GPU)."})
    grid: list[int] | None = field(default=None, metadata={"doc": "Launch grid x, y, z (GPU)."})
    block: list[int] | None = field(default=None, metadata={"doc": "Thread block x, y, z (GPU)."})
    shared_bytes: int | None = field(
        default=None, metadata={"doc": "Static and dynamic shared memory per block (GPU)."}
    )
    seconds: float | None = field(
        default=None, metadata={"doc": "GPU time of all its launches in one evaluation."}
    )


@dataclass(frozen=True)
class TimeStats:
    """Time of the op alone at one width, over weights that no cache holds unless hot."""

    median_seconds: float = field(metadata={"doc": "Median over the repeats, of one op."})
    low_seconds: float = field(metadata={"doc": "First quartile."})
    high_seconds: float = field(metadata={"doc": "Third quartile."})
    repeats: int = field(metadata={"doc": "Timed graphs.", "minimum": 1})
    copies: int = field(metadata={"doc": "Ops in a graph.", "minimum": 1})
    weights_bytes: int = field(
        metadata={"doc": "Bytes of distinct weights that were read between two reads of the same."}
    )
    cache_bytes: int = field(
        metadata={"doc": "Last-level cache of the CPU, or 128 MiB for any other device."}
    )
    hot: bool = field(metadata={"doc": "One set of weights, which a cache may hold."})
    drift: float = field(
        metadata={"doc": "Median of the last third of the repeats over that of the first, minus 1."}
    )
    gbps: float | None = field(
        default=None, metadata={"doc": "Bytes the op reads and writes per second, 1e9."}
    )
    gflops: float | None = field(
        default=None, metadata={"doc": "Operations as upstream's op_flops counts, per second, 1e9."}
    )
    samples: list[float] = field(
        default_factory=list,
        metadata={"doc": "Seconds of one op in each repeat, in the order they were taken."},
    )


@dataclass(frozen=True)
class Result:
    """One case at one width in one config. Counts and maxima are over all seeds together."""

    config: str = field(metadata={"doc": "Id of the config."})
    case: str = field(
        metadata={"doc": "The case: op and parameters in upstream's notation, without the width."}
    )
    upstream_case: str = field(
        metadata={"doc": "The string test-backend-ops uses for this case at this width."}
    )
    op: str = field(metadata={"doc": "ggml's name of the op: MUL_MAT, FLASH_ATTN_EXT, ..."})
    params: Mapping[str, Param] = field(
        metadata={"doc": "The op's parameters, in upstream's variable names where it has one."}
    )
    width: int = field(metadata={"doc": "Tokens in one evaluation.", "minimum": 1})
    verdict: str = field(
        metadata={"doc": "Outcome; see verdicts.", "enum": [str(verdict) for verdict in Verdict]}
    )
    detail: str | None = field(
        default=None, metadata={"doc": "Why there is no comparison, in one line."}
    )
    columns_differing: list[int] = field(
        default_factory=list,
        metadata={"doc": "Tokens whose output differs from its serial reference in any seed."},
    )
    elements: int = field(default=0, metadata={"doc": "Output elements compared."})
    elements_differing: int = field(
        default=0, metadata={"doc": "Output elements that differ in bits."}
    )
    max_ulp: int | None = field(
        default=None,
        metadata={"doc": "Largest distance in units in the last place, over finite pairs."},
    )
    ulp_histogram: Mapping[str, int] = field(
        default_factory=dict,
        metadata={"doc": "Differing elements per ULP distance: 1, 2, 3-4, 5-8, ..."},
    )
    signed_zero: int = field(
        default=0, metadata={"doc": "Pairs of +0 and -0, which no ULP distance counts."}
    )
    infinite: int = field(
        default=0, metadata={"doc": "Differing pairs with an infinity and no NaN."}
    )
    max_abs: float | None = field(default=None, metadata={"doc": "Largest absolute difference."})
    max_err_scaled: float | None = field(
        default=None,
        metadata={
            "doc": "Largest |difference| / (2^-24 x sum |w x|); attention: sum p |v|. "
            "A float32 sum in another order stays near 1; a step through float16 reads up to "
            "2^13 and its multiples."
        },
    )
    nmse_serial: float | None = field(
        default=None, metadata={"doc": "NMSE of the serial reference against float64."}
    )
    nmse_width: float | None = field(
        default=None, metadata={"doc": "NMSE of this width's output against float64."}
    )
    unwritten: int = field(
        default=0, metadata={"doc": "Output elements that the op left as they were filled."}
    )
    nan: int = field(default=0, metadata={"doc": "NaN elements in either path's output."})
    seeds: list[SeedResult] = field(default_factory=list, metadata={"doc": "The same per seed."})
    signal: str | None = field(
        default=None, metadata={"doc": "Signal that ended the child process: SIGABRT, SIGILL, ..."}
    )
    stderr_tail: list[str] = field(
        default_factory=list, metadata={"doc": "Last lines the child wrote to stderr."}
    )
    compute_seconds: float | None = field(
        default=None, metadata={"doc": "Seconds inside ggml_backend_graph_compute for this row."}
    )
    kernels: list[Kernel] = field(
        default_factory=list, metadata={"doc": "Kernels that ran, largest share first."}
    )
    kernels_note: str | None = field(
        default=None, metadata={"doc": "Why there are none, or what is uncertain about them."}
    )
    samples_dropped: Mapping[str, int] = field(
        default_factory=dict,
        metadata={"doc": "CPU samples outside the library or while waiting, by file or function."},
    )
    time: TimeStats | None = field(default=None, metadata={"doc": "Time of the op alone."})
    time_note: str | None = field(
        default=None, metadata={"doc": "Why there is none, or what is uncertain about it."}
    )

    @property
    def key(self) -> tuple[str, str, int]:
        """What makes a row the same row: (config id, case, width)."""
        return (self.config, self.case, self.width)


@dataclass(frozen=True)
class CaseClasses:
    """Width classes of one case in one config."""

    case: str = field(metadata={"doc": "The case, as in its results."})
    config: str = field(metadata={"doc": "Id of the config."})
    groups: list[list[int]] = field(
        metadata={
            "doc": "Widths of each class; the first class, A, holds the serial reference. "
            "A width that was not run is in none."
        }
    )
    transitive: bool = field(
        metadata={"doc": "No two widths of different classes agree with each other."}
    )
    pairs: list[list[int]] = field(
        default_factory=list,
        metadata={"doc": "Pairs of widths in different classes that agree all the same."},
    )
    dispatch: list[list[int]] = field(
        default_factory=list,
        metadata={
            "doc": "Widths of each dispatch class: served by the same kernels. "
            "A width whose kernels are not known is in none."
        },
    )


@dataclass(frozen=True)
class AxisRun:
    """One value of a bisected axis that was run."""

    bisection: str = field(metadata={"doc": "Id of the bisection."})
    value: int = field(metadata={"doc": "Value on the axis.", "minimum": 1})
    config: str = field(metadata={"doc": "Id of the config it ran in."})
    case: str = field(metadata={"doc": "The case, as in its results."})
    letter: str = field(
        metadata={
            "doc": "Class of the value; a verdict in its place where nothing could be compared."
        }
    )
    verdict: str = field(
        metadata={
            "doc": "Verdict of the width, or the worst of the widths compared.",
            "enum": [str(verdict) for verdict in Verdict],
        }
    )
    width_classes: list[str] = field(
        default_factory=list,
        metadata={"doc": "Class letter of each width compared, `-` where it is in none."},
    )


@dataclass(frozen=True)
class Bisection:
    """Where the classes of one case change along an axis."""

    id: str = field(metadata={"doc": "Name that runs refer to: b0, b1, ..."})
    axis: str = field(metadata={"doc": "width, threads, m, k or kv."})
    config: str = field(metadata={"doc": "Id of the config; axis threads: of the first value's."})
    case: str = field(metadata={"doc": "The case; where the axis moves it, of the first value."})
    first: int = field(metadata={"doc": "First value of the axis."})
    last: int = field(metadata={"doc": "Last value of the axis."})
    step: int = field(metadata={"doc": "Distance of its values.", "minimum": 1})
    exhaustive: bool = field(metadata={"doc": "Every value was to be run."})
    values: int = field(metadata={"doc": "Number of values on the axis."})
    runs: int = field(metadata={"doc": "How many of them were run."})
    widths: list[int] = field(
        default_factory=list,
        metadata={"doc": "Widths compared at each value; none where the axis is the width."},
    )
    boundaries: list[list[int]] = field(
        default_factory=list, metadata={"doc": "Neighbouring values of different classes."}
    )
    unsettled: list[list[int]] = field(
        default_factory=list,
        metadata={"doc": "Values of different classes between which not every value was run."},
    )
    assumed: list[list[int]] = field(
        default_factory=list,
        metadata={
            "doc": "Values of one class between which nothing was run: no change there is assumed."
        },
    )
    first_differing: int | None = field(
        default=None,
        metadata={
            "doc": "Lowest value run that is not in the class of width 1, or on another axis of "
            "the first value."
        },
    )
    returning: Mapping[str, list[int]] = field(
        default_factory=dict,
        metadata={"doc": "Classes that come back after another (A-B-A), and where each begins."},
    )
    periods: list[list[int]] = field(
        default_factory=list,
        metadata={"doc": "[length, first, last] where classes repeat; parity has length 2."},
    )
    transitive: bool = field(
        default=True, metadata={"doc": "No two values of different classes agree with each other."}
    )


@dataclass(frozen=True)
class Slowdown:
    """Time of one case at one width on side B of `ab`, against side A; intervals are 95 %."""

    case: str = field(metadata={"doc": "The case, as in its results."})
    width: int = field(metadata={"doc": "Tokens in one evaluation.", "minimum": 1})
    ratio: float = field(
        metadata={"doc": "Time of config c1 over that of c0, median over the rounds."}
    )
    low: float = field(metadata={"doc": "Lower end of its interval."})
    high: float = field(metadata={"doc": "Upper end."})
    null: float = field(
        metadata={"doc": "The same of a second process of c0 over the first: what noise gives."}
    )
    null_low: float = field(metadata={"doc": "Lower end of its interval."})
    null_high: float = field(metadata={"doc": "Upper end."})


@dataclass(frozen=True)
class Timing:
    """What the run cost."""

    wall_seconds: float = field(metadata={"doc": "From the first case's start to the last's end."})
    compute_seconds: float = field(metadata={"doc": "Of those, inside ggml_backend_graph_compute."})
    cpu_seconds: float | None = field(
        default=None, metadata={"doc": "CPU time, user and system, of parent and children."}
    )
    peak_rss_bytes: int | None = field(
        default=None, metadata={"doc": "Peak resident memory of the largest child process."}
    )


@dataclass(frozen=True)
class Header:
    """What is known of a run before its first row; the first line of a journal."""

    schema: int = field(metadata={"doc": "Version of this format.", "minimum": 1})
    command: str = field(metadata={"doc": "The command line, quoted for a shell."})
    configs: list[Config] = field(metadata={"doc": "What the results were computed with."})
    environment: Environment = field(metadata={"doc": "The machine and the software around."})


@dataclass(frozen=True)
class Record(Header):
    """A whole run."""

    results: list[Result] = field(
        default_factory=list, metadata={"doc": "One per config, case and width."}
    )
    classes: list[CaseClasses] = field(
        default_factory=list, metadata={"doc": "One per config and case that was compared."}
    )
    runs: list[AxisRun] = field(
        default_factory=list, metadata={"doc": "Values of a bisected axis that were run."}
    )
    bisections: list[Bisection] = field(
        default_factory=list, metadata={"doc": "One per bisected config and case."}
    )
    ab: list[Slowdown] | None = field(
        default=None,
        metadata={"doc": "Of `ab`: one per case and width that both sides timed; c0 is A, c1 B."},
    )
    cells: int | None = field(
        default=None, metadata={"doc": "Cells (t, j) of all comparisons (model compare)."}
    )
    cells_differing: int | None = field(
        default=None, metadata={"doc": "Of those, with a row of logits that differs in a bit."}
    )
    flips: int | None = field(
        default=None, metadata={"doc": "Of those, with another argmax in the block path."}
    )
    flip_list: list[Flip] = field(
        default_factory=list, metadata={"doc": "The flips of all comparisons."}
    )
    pairs: list[PairStats] = field(
        default_factory=list, metadata={"doc": "The three pairs of paths, pooled over all cells."}
    )
    comparisons: list[BlockComparison] = field(
        default_factory=list, metadata={"doc": "One per config, prompt, width and prefix."}
    )
    rates: list[Rate] = field(
        default_factory=list, metadata={"doc": "Rates per value of each axis, hardest first."}
    )
    locations: list[Location] = field(
        default_factory=list, metadata={"doc": "Of `model locate`: one per config and width."}
    )
    graph_ops: list[GraphOp] = field(
        default_factory=list, metadata={"doc": "Of `model ops`: kinds of nodes, in order."}
    )
    speculated: list[Speculated] = field(
        default_factory=list,
        metadata={"doc": "Of `model speculate`: one per config, prompt, arm and recheck margin."},
    )
    speculation_totals: list[SpeculationTotal] = field(
        default_factory=list, metadata={"doc": "Those pooled over the prompts."}
    )
    timing: Timing | None = field(default=None, metadata={"doc": "What the run cost."})
    interrupted: bool = field(
        default=False, metadata={"doc": "The run was stopped before its last row."}
    )


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


def check_schema(data: Any) -> None:
    """Refuse what no ggmlprobe wrote, or a newer one did.

    Raises:
        RecordError: one line.
    """
    version = data.get("schema") if isinstance(data, dict) else None
    if type(version) is not int or "configs" not in data:
        raise RecordError("no ggmlprobe record: name a file that ggmlprobe wrote")
    if version > SCHEMA_VERSION:
        raise RecordError(
            f"schema {version} is newer than this ggmlprobe reads ({SCHEMA_VERSION}): "
            "upgrade ggmlprobe"
        )


Row = Result | CaseClasses | AxisRun | Bisection | BlockComparison | Location | Speculated
"""What a run hands out as it goes on."""


def check_references(configs: list[Config], rows: Mapping[str, Row]) -> None:
    """Refuse rows of a config that is not there, and two configs of one id.

    Args:
        configs: the configs of the record.
        rows: results, classes and the like by their place, for messages.

    Raises:
        RecordError: one line naming the place.
    """
    ids = [config.id for config in configs]
    for i, name in enumerate(ids):
        if name in ids[:i]:
            raise RecordError(f"configs[{i}].id: {name!a} is there twice")
    for path, row in rows.items():
        if row.config not in ids:
            raise RecordError(f"{path}.config: no config {row.config!a}")


def loads(text: str) -> Record:
    """The record in a JSON text.

    Raises:
        RecordError: truncated, edited, foreign or of a newer schema; one line.
    """
    data = parse(text)
    check_schema(data)
    record = from_dict(Record, data)
    rows: dict[str, Row] = {}
    lists = ("results", "classes", "runs", "bisections", "comparisons", "locations", "speculated")
    for name in lists:
        rows.update({f"{name}[{i}]": row for i, row in enumerate(getattr(record, name))})
    check_references(record.configs, rows)
    check_values(record)
    return record


def load(path: Path) -> Record:
    """The record in a file.

    Raises:
        RecordError: one line that begins with the path.
    """
    try:
        return loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecordError(f"{path}: no text: name a file that ggmlprobe wrote") from error
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from error
