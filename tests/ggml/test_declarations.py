"""The declarations, the calls and the library under test agree on names."""

from __future__ import annotations

import re
from pathlib import Path

import ggmlprobe
from ggmlprobe.ggml.declarations import HEADERS
from ggmlprobe.ggml.library import Library

PACKAGE = Path(ggmlprobe.__file__).parent


def declared() -> set[str]:
    folder = PACKAGE / "ggml" / "decl"
    assert {path.name for path in folder.iterdir()} == set(HEADERS)
    text = "".join((folder / name).read_text() for name in HEADERS)
    return set(re.findall(r"\b(ggml_\w+)\(", text))


def called() -> set[str]:
    text = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    ops = re.findall(r"\.(?:op|call)\(\s*\"(\w+)\"", text)
    return {f"ggml_{op}" for op in ops} | set(re.findall(r"\bc\.(ggml_\w+)", text))


def test_every_call_is_declared() -> None:
    assert called() - declared() == set()
    assert {"ggml_mul_mat", "ggml_backend_graph_compute"} <= called()


def test_every_declared_function_is_in_the_library_of_today(library: Library) -> None:
    assert {name for name in declared() if not library.has(name)} == set()
