"""Passes: measurements of a case apart from the verdict, after it, in the same child.

A verdict is never taken while something is sampled or timed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from importlib import import_module
from typing import Any

from ggmlprobe.ops.base import Evaluator, Op, Session

Measure = Callable[[Session, Op, Evaluator, Sequence[int]], Iterator[tuple[int, dict[str, Any]]]]
"""(session, op, loaded evaluator, widths) to (width, fields of record.Result) pairs."""

MODULES = {
    "kernels": "ggmlprobe.dispatch.kernels",
    "time": "ggmlprobe.dispatch.timing",
}
"""Pass name to the module whose `measure` does it; `<name>_note` says why there is nothing."""

NAMED = frozenset({"CPU", "CUDA", "Vulkan"})
"""Backends whose kernels can be named."""
NO_CUPTI = "kernel names need CUPTI: pip install cupti-python"


def load(name: str) -> Measure:
    """The pass of that name."""
    measure: Measure = import_module(MODULES[name]).measure
    return measure


def check_kernels(files: Sequence[str], backends: Collection[str]) -> None:
    """Refuse before a run a library whose kernels the pass could not name.

    Args:
        files: the library's files, as they are mapped.
        backends: names of the backends that will run.

    Raises:
        UsageError: a stripped library. LibraryNotFound: native/ is not built.
    """
    import_module(MODULES["kernels"]).check(files, backends)
