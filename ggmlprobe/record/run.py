"""A whole run, defined once: every list of its record, and what is known before its first row."""

from __future__ import annotations

from dataclasses import dataclass, field

from ggmlprobe.environment import Environment
from ggmlprobe.model.located import GraphOp, Location
from ggmlprobe.model.record import BlockComparison, Flip, PairStats, Rate
from ggmlprobe.model.speculated import Speculated, SpeculationTotal
from ggmlprobe.record.bisection import AxisRun, Bisection
from ggmlprobe.record.config import Config
from ggmlprobe.record.result import CaseClasses, Result
from ggmlprobe.record.timing import Slowdown, Timing

SCHEMA_VERSION = 2
"""Raised whenever a field is added, removed or changes its meaning."""


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


Row = Result | CaseClasses | AxisRun | Bisection | BlockComparison | Location | Speculated
"""What a run hands out as it goes on."""
