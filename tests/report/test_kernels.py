"""Kernels in the table: short names, shares, and where dispatch and width classes part."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace

import pytest

from ggmlprobe.record import CaseClasses, Kernel, Record, Result
from ggmlprobe.report.csv import render as render_csv
from ggmlprobe.report.kernels import dispatch_text, kernel_cells, kernel_lines, short
from ggmlprobe.report.markdown import table


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ggml_vec_dot_q4_K_q8_K", "ggml_vec_dot_q4_K_q8_K"),
        ("ggml_graph_compute._omp_fn.0", "ggml_graph_compute._omp_fn.0"),
        ("[libggml-cpu.so]", "[libggml-cpu.so]"),
        ("foo(int) [clone .part.0]", "foo"),
        ("tiled_unpack_src0(block_q4_K const*, long, int, tiled_tile_src0*, int)",
         "tiled_unpack_src0"),
        ("void (anonymous namespace)::tinyBLAS<16, float __vector(16), float>::gemm4xN<4>(long)",
         "tinyBLAS<...>::gemm4xN<4>"),
        ("void mul_mat_vec_q<(ggml_type)12, 1, false>(void const*, float*)",
         "mul_mat_vec_q<(ggml_type)12, 1, false>"),
        ("std::vector<int>::push_back(int)", "std::vector<int>::push_back"),
        ("void f<" + "1, " * 30 + "2>(int)", "f<...>"),
    ],
)  # fmt: skip
def test_short_names(name: str, expected: str) -> None:
    assert short(name) == expected


@pytest.fixture
def bare(record: Callable[..., Record], result: Callable[..., Result]) -> Record:
    """Return a record without kernels."""
    return record([result(1), result(4)])


@pytest.fixture
def sampled(bare: Record) -> Record:
    """Return a record whose rows have kernels."""
    kernels = [Kernel("void f<1>(int)", 0.9, 360), Kernel("g", 0.06, 24), Kernel("h", 0.04, 16)]
    rows = [replace(row, kernels=kernels, samples_dropped={"libgomp.so.1": 100})
            for row in bare.results]  # fmt: skip
    return replace(bare, results=rows)


@pytest.mark.parametrize(
    ("shares", "shown"),
    [
        ([0.9, 0.1], "k0 90%, k1 10%"),
        ([0.9, 0.09], "k0 90%"),
        ([0.3, 0.3, 0.2, 0.2], "k0 30%, k1 30%, k2 20%"),
        ([0.05, 0.05], "-"),
    ],
)
def test_column_has_three_kernels_of_a_tenth_and_more(
    sampled: Record, shares: list[float], shown: str
) -> None:
    (cell,) = kernel_cells(sampled).values()
    kernels = [Kernel(f"k{i}", share) for i, share in enumerate(shares)]
    assert cell(replace(sampled.results[0], kernels=kernels)) == shown


def test_gpu_launch_has_grid_and_block(sampled: Record) -> None:
    launch = Kernel("q<4>", 1.0, None, 1, [4096, 1, 1], [32, 4, 1], 0, 1e-6)
    (cell,) = kernel_cells(sampled).values()
    row = replace(sampled.results[0], kernels=[launch])
    assert cell(row) == "q<4> (4096,1,1) x (32,4,1) 100%"
    assert cell(replace(row, kernels=[])) == "-"


def test_no_column_and_no_lines_without_kernels(bare: Record) -> None:
    assert kernel_cells(bare) == {}
    assert kernel_lines(bare) == []
    assert "kernels" not in table(bare)
    assert "dispatch" not in table(bare)


def test_whole_table(sampled: Record) -> None:
    entry = replace(classes([[1], [4]], [[1, 4]]), case=sampled.results[0].case)
    text = table(replace(sampled, classes=[entry]))
    assert "| kernels" in text
    assert "dispatch classes: 1,4; same kernels, different bits: 1 and 4\n" in text


def test_lines_tell_samples_drops_and_notes(sampled: Record) -> None:
    first, *rest = sampled.results
    noted = [
        replace(first, kernels_note="few; late"),
        *(replace(r, kernels_note="late") for r in rest),
    ]
    lines = kernel_lines(replace(sampled, results=noted))
    assert "share of 400 samples" in lines[0]
    assert "libgomp.so.1 20%" in lines[0]
    assert lines[1:] == ["- kernels at width 1: few", "- kernels at width 1,4: late"]


def test_widths_that_are_not_sampled_are_not_counted_with_those_that_are(sampled: Record) -> None:
    first, second = sampled.results
    pipeline = Kernel("matmul_f32", None, None, 1, [16, 1, 1])
    lines = kernel_lines(replace(sampled, results=[replace(first, kernels=[pipeline]), second]))
    assert "share of 400 samples in the library" in lines[0]


def classes(groups: list[list[int]], dispatch: list[list[int]]) -> CaseClasses:
    return CaseClasses("case", "c0", groups, True, [], dispatch)


def test_dispatch_classes_that_agree() -> None:
    assert dispatch_text(classes([[1, 2, 3], [8]], [[1, 2, 3], [8]])) == "1-3 | 8"


def test_disagreements_are_pointed_out() -> None:
    assert dispatch_text(classes([[1, 2, 3, 4], [5]], [[1, 2], [3, 4, 5]])) == (
        "1,2 | 3-5; same kernels, different bits: 4 and 5; different kernels, same bits: 2 and 3"
    )


def test_pair_that_agrees_all_the_same_is_no_disagreement() -> None:
    entry = replace(classes([[1], [4], [8]], [[1], [4, 8]]), transitive=False, pairs=[[4, 8]])
    assert dispatch_text(entry) == "1 | 4,8"


def test_many_disagreements_are_cut() -> None:
    text = dispatch_text(classes([list(range(1, 21))], [[width] for width in range(1, 21)]))
    assert text.endswith("8 and 9 and 11 more")


def test_csv_names_every_kernel(sampled: Record) -> None:
    noted = replace(sampled.results[0], kernels_note="late")
    (row,) = csv.DictReader(io.StringIO(render_csv(replace(sampled, results=[noted]))))
    assert (row["kernels"], row["kernels_note"]) == ("void f<1>(int); g; h", "late")


def test_a_note_names_its_configs_where_others_have_none(
    record: Callable[..., Record], result: Callable[..., Result]
) -> None:
    server = [result(width, config="c1", kernels_note="not seen") for width in (1, 2)]
    both = [*(result(width) for width in (1, 2)), *server]
    assert "- kernels at width 1,2 in c1: not seen" in kernel_lines(record(both))
    assert "- kernels at width 1,2: not seen" in kernel_lines(record(server))
