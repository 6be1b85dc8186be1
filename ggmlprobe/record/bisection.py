"""Where classes change along an axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ggmlprobe.verdict import Verdict


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
