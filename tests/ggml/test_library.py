"""What a loaded library says about itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ggmlprobe.errors import LibraryBroken
from ggmlprobe.ggml import device
from ggmlprobe.ggml.find import find
from ggmlprobe.ggml.library import Library, check
from ggmlprobe.ggml.symbols import open_all


def test_version_and_check(library: Library) -> None:
    assert library.version is not None
    assert library.version.split(".")[0].isdigit()
    assert library.commit
    check(library)


def test_stamp_is_read_where_it_is_ours(lib_path: str, tmp_path: Path) -> None:
    found = replace(find(lib_path, {}), directory=tmp_path)
    ffi, c = open_all(found.files)
    stamp = tmp_path / "build.json"

    def read() -> dict[str, str] | None:
        return Library(found, ffi, c).stamp

    assert read() is None
    for foreign in ("not json", "[1]", '{"name": "else"}'):
        stamp.write_text(foreign)
        assert read() is None
    stamp.write_text(json.dumps({"ggml_version": "0.25.3", "commit": "0c1e570", "amx": None}))
    assert read() == {"ggml_version": "0.25.3", "commit": "0c1e570"}


@pytest.mark.parametrize("type_name", ["f32", "f16"])
def test_check_names_op_and_first_wrong_value(
    library: Library, monkeypatch: pytest.MonkeyPatch, type_name: str
) -> None:
    class Wrong(device.Backend):
        """Computes rightly, then spoils one value of one product."""

        def compute(self, graph: object) -> None:
            super().compute(graph)  # type: ignore[arg-type]
            source = self.lib.c.ggml_graph_node(graph.ptr, 0)  # type: ignore[attr-defined]
            value = self.lib.ffi.new("float *", 0.5)
            if self.computes == (1 if type_name == "f32" else 2):
                self.lib.c.ggml_backend_tensor_set(source, value, 4 * 10, 4)

    monkeypatch.setattr("ggmlprobe.ggml.check.Backend", Wrong)
    expected = rf"MUL_MAT {type_name} wrongly: row 3, column 1 is 0.5 and must be -?\d+; give"
    with pytest.raises(LibraryBroken, match=expected) as error:
        check(library)
    assert "\n" not in str(error.value)
