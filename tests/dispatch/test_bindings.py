"""What a library exports and looks up decides whether its functions can be replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from ggmlprobe.dispatch.arms import CPU_ARMS, CUDA_ARMS, chosen
from ggmlprobe.dispatch.bindings import base_name, read_bindings, require_replaceable
from ggmlprobe.errors import LibraryBroken, SymbolMissing

MMVQ = "_Z25ggml_cuda_should_use_mmvq9ggml_typeil"


def test_stock_library_can_be_replaced(standins: dict[str, Path]) -> None:
    files = [str(standins["stock"])]
    for arm in (*CUDA_ARMS, *chosen("CUDA", "mul_mat", ["split:4"])):
        arm.require(files)


@pytest.mark.parametrize(
    ("way", "says"),
    [
        ("hidden", f"does not export {MMVQ} (static or hidden)"),
        ("symbolic", f"{MMVQ} is called without being looked up"),
        ("other", "this version's signature of ggml_cuda_should_use_mmvq differs: it has "
                  "_Z25ggml_cuda_should_use_mmvq9ggml_typeill"),
    ],
)  # fmt: skip
def test_other_ways_to_link_are_refused_in_one_line(
    standins: dict[str, Path], way: str, says: str
) -> None:
    with pytest.raises(SymbolMissing) as caught:
        require_replaceable(MMVQ, [str(standins[way])])
    assert says in str(caught.value)
    assert MMVQ in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_of_several_is_enough(standins: dict[str, Path]) -> None:
    require_replaceable(MMVQ, [str(standins["hidden"]), str(standins["stock"])])


def test_interposers_replace_what_the_arms_name(interposers: dict[str, Path]) -> None:
    for arm in (*CPU_ARMS, *CUDA_ARMS, *chosen("CPU", "mul_mat", ["split:2"])):
        names = [name.removeprefix("interpose_") for name in arm.interposers]
        exported = [read_bindings(str(interposers[name])).exported for name in names]
        replaced = frozenset().union(*exported)
        assert replaced.issuperset(arm.symbols), arm.name


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    file = tmp_path / "libggml-cuda.so"
    file.write_text("no")
    with pytest.raises(LibraryBroken, match="no ELF file"):
        read_bindings(str(file))


def test_static_library_of_another_project(foreign_libs: dict[str, Path]) -> None:
    files = [str(foreign_libs["static"])]
    with pytest.raises(SymbolMissing, match="ggml_cuda_should_use_mmvq9ggml_typeil"):
        chosen("CUDA", "mul_mat", ["mmvq"])[0].require(files)
    with pytest.raises(SymbolMissing, match="llamafile_sgemm"):
        chosen("CPU", "mul_mat", ["vec_dot"])[0].require(files)


def test_base_names() -> None:
    assert base_name(MMVQ) == "ggml_cuda_should_use_mmvq"
    assert base_name("llamafile_sgemm") == "llamafile_sgemm"
