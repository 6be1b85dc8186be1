"""Which Vulkan pipelines an op dispatches: libggml-vulkan labels each one for debuggers.

With GGML_VK_DEBUG_MARKERS it brackets every dispatch by a label of VK_EXT_debug_utils, "PIPELINE
(X,Y,Z)" with the work groups, and every node by one without; native/vulkan_labels.c takes them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ggmlprobe.ggml.vulkan_labels import Labels
from ggmlprobe.ops.base import Evaluator, Session

DISPATCH = re.compile(r"(?P<name>\S+) \((?P<grid>\d+,\d+,\d+)\)")
NOT_LABELLED = "this libggml labels no dispatches; 0.25.1 is known to"
TOO_MANY = "more labels than there is room for"


def described(lines: Sequence[str] | None) -> dict[str, Any]:
    """The labels of one evaluation as fields of record.Result."""
    if lines is None:
        return {"kernels_note": TOO_MANY}
    matches = [match for line in lines if (match := DISPATCH.fullmatch(line))]
    if not matches:
        return {"kernels_note": NOT_LABELLED}
    calls = Counter((match["name"], match["grid"]) for match in matches)
    kernels = [
        {"name": name, "calls": count, "grid": [int(size) for size in grid.split(",")]}
        for (name, grid), count in calls.items()
    ]
    return {"kernels": kernels}


def measure(
    session: Session, evaluator: Evaluator, widths: Sequence[int]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Fields `kernels` and `kernels_note` of each width's result."""
    labels = Labels()
    around, session.backend.around = session.backend.around, labels.kept
    try:
        for width in widths:
            evaluator.evaluate(0, width)
            yield width, described(labels.lines)
    finally:
        session.backend.around = around
