"""Finding native/'s libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from ggmlprobe.errors import LibraryNotFound
from ggmlprobe.ggml.native import ENVIRONMENT, native_library


def test_named_folder(tmp_path: Path) -> None:
    library = tmp_path / "libggmlprobe_some.so"
    library.touch()
    assert native_library("some", {ENVIRONMENT: str(tmp_path)}) == library


@pytest.mark.parametrize("named", [True, False])
def test_missing_says_the_fix(tmp_path: Path, named: bool) -> None:
    environ = {ENVIRONMENT: str(tmp_path)} if named else {}
    with pytest.raises(LibraryNotFound, match=ENVIRONMENT if named else "install") as raised:
        native_library("none", environ)
    assert "libggmlprobe_none.so" in str(raised.value)
    assert "\n" not in str(raised.value)
