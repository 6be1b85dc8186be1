"""Which Vulkan pipelines an op dispatches, where the build tells.

Up to ggml 0.25.3 only a build with GGML_VULKAN_DEBUG names every dispatch, on stderr. The switches
of a stock build do not say it: GGML_VK_PERF_LOGGER names ops, and GGML_VK_PIPELINE_STATS a pipeline
once, when it is compiled.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ggmlprobe.ops.base import Evaluator, Session

DISPATCH = re.compile(
    r"^ggml_vk_dispatch_pipeline\((?P<name>[^\s,]+), \{.*\}, \((?P<grid>\d+,\d+,\d+)\)\)$",
    re.MULTILINE,
)
NOT_REPORTED = "only a Vulkan build with -DGGML_VULKAN_DEBUG=ON names its pipelines"
STDERR = 2


class Capture:
    """Keeps what is written to stderr, by whatever language, during a block.

    Attributes:
        text: what the last block wrote.
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self.text = ""

    @contextmanager
    def captured(self) -> Iterator[None]:
        """Send stderr into a file for the block."""
        with tempfile.TemporaryFile() as file:
            kept = os.dup(STDERR)
            os.dup2(file.fileno(), STDERR)
            try:
                yield
            finally:
                os.dup2(kept, STDERR)
                os.close(kept)
                file.seek(0)
                self.text = file.read().decode(errors="replace")


def described(text: str) -> dict[str, Any]:
    """The dispatches in the messages of one evaluation as fields of record.Result."""
    calls = Counter((match["name"], match["grid"]) for match in DISPATCH.finditer(text))
    if not calls:
        return {"kernels_note": NOT_REPORTED}
    kernels = [
        {"name": name, "calls": count, "grid": [int(size) for size in grid.split(",")]}
        for (name, grid), count in calls.items()
    ]
    return {"kernels": kernels}


def measure(
    session: Session, evaluator: Evaluator, widths: Sequence[int]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Fields `kernels` and `kernels_note` of each width's result."""
    capture = Capture()
    around, session.backend.around = session.backend.around, capture.captured
    try:
        for width in widths:
            evaluator.evaluate(0, width)
            yield width, described(capture.text)
    finally:
        session.backend.around = around
