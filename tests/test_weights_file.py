"""Reading weights out of GGUF files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ggmlprobe.errors import ModelBroken, UsageError
from ggmlprobe.ggml.library import Library
from ggmlprobe.weights_file import WeightsFile, parts, type_name, weight_of

gguf = pytest.importorskip("gguf")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of two tensors, with metadata of every shape."""
    path = tmp_path_factory.mktemp("gguf") / "made.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_array("tokens", ["one", "zwei", "trois " * 99])
    writer.add_array("scores", [0.5, 1.5, 2.5])
    writer.add_string("after", "the arrays")
    writer.add_tensor("norm", np.arange(8, dtype=np.float32))
    writer.add_tensor("matrix", np.arange(64, dtype=np.float16).reshape(4, 16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_tensors_are_those_of_the_file(made: Path) -> None:
    weights = WeightsFile(made).weights
    assert [(w.name, w.type, w.ne) for w in weights.values()] == [
        ("norm", "f32", (8,)), ("matrix", "f16", (16, 4)),
    ]  # fmt: skip
    rows = weights["matrix"].data
    assert rows.dtype == np.uint8
    assert rows.shape == (4, 32)
    assert np.array_equal(rows.view(np.float16), np.arange(64).reshape(4, 16))


def test_all_of_a_model_is_read(smollm2: Path, library: Library) -> None:
    weights = WeightsFile(smollm2).weights
    assert len(weights) == 272
    down = weights["blk.0.ffn_down.weight"]
    assert (down.type, down.ne) == ("q4_1", (1536, 576))
    for weight in weights.values():
        assert weight.data.shape[1] == library.row_size(weight.type, weight.ne[0])


def test_every_type_is_named_as_ggml_names_it(library: Library) -> None:
    named = {kind.name: type_name(kind.name) for kind in gguf.GGMLQuantizationType}
    ours = {i.id: name for name, i in library.types.items()}
    for kind in gguf.GGMLQuantizationType:
        if kind.value in ours:
            assert named[kind.name] == ours[kind.value]


def test_one_weight_by_file_and_name(made: Path) -> None:
    assert weight_of(f"{made}#norm").ne == (8,)
    with pytest.raises(UsageError, match="has no tensor other"):
        weight_of(f"{made}#other")


@pytest.mark.parametrize("length", [0, 3, 7, 20, 40, 200, -1, -40])
def test_a_file_that_is_cut_off_is_one_line(made: Path, tmp_path: Path, length: int) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(made.read_bytes()[:length])
    with pytest.raises(ModelBroken) as refused:
        WeightsFile(cut)
    assert "\n" not in str(refused.value)


def test_a_split_model_has_parts() -> None:
    assert parts(Path("a/m-00001-of-00003.gguf")) == [
        Path(f"a/m-0000{i}-of-00003.gguf") for i in (1, 2, 3)
    ]
    assert parts(Path("a/m.gguf")) == [Path("a/m.gguf")]
