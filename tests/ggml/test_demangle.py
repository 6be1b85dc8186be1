"""Names of C++ functions."""

from __future__ import annotations

import pytest

from ggmlprobe.ggml.demangle import demangle


@pytest.mark.parametrize(
    ("mangled", "written"),
    [
        ("_Z3fooi", "foo(int)"),
        ("_Z3fooILi4EEvv", "void foo<4>()"),
        ("_ZN12_GLOBAL__N_18tinyBLASIfE4gemmILi4EEEvl",
         "void (anonymous namespace)::tinyBLAS<float>::gemm<4>(long)"),
        ("_Z3fooi.part.0", "foo(int) [clone .part.0]"),
        ("ggml_vec_dot_q4_K_q8_K", "ggml_vec_dot_q4_K_q8_K"),
        ("ggml_graph_compute._omp_fn.0", "ggml_graph_compute._omp_fn.0"),
        ("_Znonsense!", "_Znonsense!"),
        ("i", "i"),
        ("", ""),
    ],
)  # fmt: skip
def test_names(mangled: str, written: str) -> None:
    assert demangle(mangled) == written
