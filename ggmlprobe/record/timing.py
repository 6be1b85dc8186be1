"""Times: of an op, of two sides against each other, and of a whole run."""

from __future__ import annotations

from dataclasses import dataclass, field


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
