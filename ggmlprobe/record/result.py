"""A row of a run: one case at one width, and the width classes of a case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ggmlprobe.record.timing import TimeStats
from ggmlprobe.verdict import Verdict

Param = bool | int | float | str | list[bool | int | float | str] | None
"""A value of an op's parameter; lists as in upstream's ``bs=[1,1]``."""


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
    backends: list[str] = field(
        default_factory=list,
        metadata={
            "doc": "Devices that a scheduler gave the op's nodes to, in the nodes' order, each "
            "once; empty where a single device was asked for."
        },
    )
    weights_buft: str | None = field(
        default=None,
        metadata={
            "doc": "Buffer type of the weights, or of the K and V caches, where a scheduler ran; "
            "else it is that of the config."
        },
    )
    openblas_threads: int | None = field(
        default=None,
        metadata={"doc": "Threads that OpenBLAS told once it had computed; null where it did not."},
    )
    compute_seconds: float | None = field(
        default=None,
        metadata={"doc": "Seconds inside ggml_backend_graph_compute or ggml_backend_sched's."},
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
