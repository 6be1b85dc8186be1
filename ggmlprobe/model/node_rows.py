"""Rows of a record for nodes that were probed on a block's own values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ggmlprobe.classes import width_classes
from ggmlprobe.model.located import GraphOp
from ggmlprobe.record import CaseClasses, Config, Result
from ggmlprobe.verdict import Evidence, judge

Event = dict[str, Any]
FOUND = ("max_ulp", "ulp_histogram", "signed_zero", "infinite", "max_abs", "elements",
         "elements_differing")  # fmt: skip


def case_of(kind: GraphOp) -> str:
    """What a kind of node without a case of the op probe is called."""
    return f"{kind.op}({kind.shape})"


def rows(
    config: Config, kinds: Iterable[GraphOp], events: Iterable[Event], widths: Iterable[int]
) -> Iterator[Result | CaseClasses]:
    """Rows from `outcome` events of the task `nodes`, and the classes of each kind."""
    named = {(kind.op, kind.shape): kind for kind in kinds}
    signatures: dict[str, dict[int, list[list[str]]]] = {}
    wanted = set(widths)
    for event in events:
        kind, outcome = named.get((event["op"], event["shape"])), event["outcome"]
        if kind is None or outcome is None:
            continue
        signatures.setdefault(case_of(kind), {})[outcome["width"]] = [outcome["hashes"]]
        if outcome["width"] in wanted:
            yield _row(config, kind, outcome)
    for case, signature in signatures.items():
        made = width_classes(signature)
        yield CaseClasses(
            case=case, config=config.id, groups=made.groups, transitive=made.transitive,
            pairs=[list(pair) for pair in made.pairs],
        )  # fmt: skip


def _row(config: Config, kind: GraphOp, outcome: Mapping[str, Any]) -> Result:
    difference = outcome["difference"]
    columns = difference["columns"]
    # there is no float64 truth of these: two paths are told apart by their bits alone
    evidence = Evidence(
        nan=outcome["nan"], unwritten=outcome["unwritten"],
        repeats=outcome["serial_repeats"] and outcome["width_repeats"], differs=bool(columns),
        nmse_serial=0.0, nmse_width=0.0, bound=math.inf, elements=difference["elements"],
    )  # fmt: skip
    case = case_of(kind)
    return Result(
        config=config.id, case=case, upstream_case=case, op=kind.op,
        params={"sources": kind.shape}, width=outcome["width"], verdict=str(judge(evidence)),
        columns_differing=columns, nan=outcome["nan"], unwritten=outcome["unwritten"],
        max_err_scaled=outcome["max_err_scaled"], **{name: difference[name] for name in FOUND},
    )  # fmt: skip
