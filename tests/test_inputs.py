"""The generator: known values, slices, distribution, exactness, and the same bits in C."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggmlprobe import inputs
from ggmlprobe.errors import UsageError

MASK = 2**64 - 1


def scalar_hash(seed: int, stream: str, counter: int) -> int:
    """FNV-1a, then splitmix64's finalizer twice, in Python integers."""

    def mix(z: int) -> int:
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
        return z ^ (z >> 31)

    name = 0xCBF29CE484222325
    for byte in stream.encode():
        name = (name ^ byte) * 0x100000001B3 & MASK
    return mix((mix(seed ^ name) + counter * 0x9E3779B97F4A7C15) & MASK)


def test_splitmix64_gives_its_published_first_outputs() -> None:
    # Seed 1234567 of the reference implementation: state advances by GAMMA before each output.
    state, seen = 1234567, []
    for _ in range(3):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        seen.append(inputs._mix(state))
    assert seen == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(st.integers(0, MASK), st.text(max_size=12), st.integers(0, 2**40))
def test_value_is_the_table_entry_of_its_lane(seed: int, stream: str, index: int) -> None:
    lane = scalar_hash(seed, stream, index // 4) >> (16 * (index % 4)) & 0xFFFF
    expected = (inputs.QUANTILES[lane >> 8] + inputs.QUANTILES[lane & 255]) / 2**22
    assert inputs.normal(seed, stream, 1, start=index)[0] == expected


@given(st.integers(0, 9), st.integers(0, 3 * 2**16), st.integers(0, 300))
def test_slice_is_the_part_of_the_whole(seed: int, start: int, count: int) -> None:
    whole = inputs.normal(seed, "whole", start + count)
    assert np.array_equal(inputs.normal(seed, "whole", count, start=start), whole[start:])


def test_chunks_join_without_a_seam() -> None:
    edge = 4 * inputs._CHUNK
    whole = inputs.normal(5, "seam", 3 * edge + 7)
    singles = [inputs.normal(5, "seam", 1, start=i)[0] for i in range(edge - 6, edge + 6)]
    assert whole.shape == (3 * edge + 7,)
    assert whole[edge - 6 : edge + 6].tolist() == singles


def test_float16_values_are_those_of_float32_rounded_to_nearest_even() -> None:
    single, half = inputs.normal(3, "x", 100_003), inputs.normal_f16(3, "x", 100_003)
    assert (single.dtype, half.dtype) == (np.float32, np.float16)
    assert single.flags.c_contiguous
    spacing = np.spacing(np.abs(half)).astype(np.float64)
    assert (np.abs(single.astype(np.float64) - half) <= spacing / 2).all()
    assert np.array_equal(single.astype(np.float16), half)


def test_every_table_entry_is_an_integer_over_2_22_exact_in_float32() -> None:
    column = np.array(inputs.QUANTILES, dtype=np.int64)
    sums = (column[:, None] + column[None, :]).ravel()
    assert np.abs(sums).max() < 2**24
    assert np.count_nonzero(sums) == 65536
    assert np.array_equal(inputs._table("float32").astype(np.float64) * 2**22, sums)


def test_table_has_mean_zero_and_standard_deviation_one() -> None:
    table = inputs._table("float32").astype(np.float64)
    assert table.sum() == 0
    assert table.std() == pytest.approx(1, abs=1e-8)


def test_sums_of_products_show_their_order() -> None:
    # On a coarse grid every partial sum is exact, and a library that reorders looks invariant.
    x = inputs.normal(1, "activations", 64 * 1024).reshape(64, 1024)
    for w in (inputs.normal(1, "weights", 1024), inputs.normal_f16(1, "weights", 1024)):
        products = x * w.astype(np.float32)
        forward = np.cumsum(products, axis=1, dtype=np.float32)[:, -1]
        backward = np.cumsum(products[:, ::-1], axis=1, dtype=np.float32)[:, -1]
        assert (forward != backward).mean() > 0.8


def test_products_round_so_that_a_fused_multiply_add_shows() -> None:
    a, b = inputs.normal(1, "a", 4096), inputs.normal(1, "b", 4096)
    assert (a.astype(np.float64) * b != a * b).mean() > 0.9


def test_values_round_in_float16_so_that_a_conversion_shows() -> None:
    assert (inputs.normal(1, "a", 4096) != inputs.normal_f16(1, "a", 4096)).mean() > 0.9


def test_distribution_is_near_normal() -> None:
    x = inputs.normal(1, "distribution", 1 << 20).astype(np.float64)
    assert abs(x.mean()) < 5e-3
    assert abs(x.std() - 1) < 5e-3
    assert abs(np.mean(x**3)) < 0.02
    assert 2.9 < np.mean(x**4) / x.var() ** 2 < 3.0
    assert 0.679 < np.mean(np.abs(x) < 1) < 0.687
    assert 0.952 < np.mean(np.abs(x) < 2) < 0.957


def test_lanes_neighbours_streams_and_seeds_do_not_correlate() -> None:
    n = 1 << 18
    a = inputs.normal(1, "a", n)
    columns = [*a.reshape(-1, 4).T, *inputs.normal(1, "b", n).reshape(-1, 4).T]
    columns += [*inputs.normal(2, "a", n).reshape(-1, 4).T, np.roll(a.reshape(-1, 4).T[0], 1)]
    off_diagonal = np.corrcoef(columns) - np.eye(len(columns))
    assert np.abs(off_diagonal).max() < 6 / np.sqrt(n / 4)


@pytest.mark.parametrize(("seed", "stream"), [(2, "a"), (1, "b"), (MASK, "a"), (1, "")])
def test_other_seed_or_stream_gives_other_values(seed: int, stream: str) -> None:
    same = inputs.normal(1, "a", 4096) == inputs.normal(seed, stream, 4096)
    assert same.mean() < 0.01


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seed_out_of_range_says_the_range(seed: int) -> None:
    with pytest.raises(UsageError, match="from 0 to 2"):
        inputs.normal(seed, "a", 4)


def test_outlier_gain_is_rare_and_large() -> None:
    gain = inputs.outlier_gain(1, "channels", 1 << 16)
    assert gain.dtype == np.float32
    assert set(gain.tolist()) == {1.0, 32.0}
    assert 1 / 72 < np.mean(gain == 32) < 1 / 57


def test_outlier_channels_are_not_tied_to_the_values_of_a_stream_of_that_name() -> None:
    rare = inputs.outlier_gain(1, "a", 1 << 16) == 32
    values = inputs.normal(1, "a", 4 << 16).reshape(-1, 4)[rare]
    assert np.abs(values.mean(axis=0)).max() < 6 / np.sqrt(rare.sum())


@given(st.integers(0, 2**32), st.integers(1, 2**32), st.integers(0, 50))
def test_uniform_int_stays_below_its_bound(seed: int, bound: int, count: int) -> None:
    values = inputs.uniform_int(seed, "routing", count, bound)
    assert values.dtype == np.int64
    assert values.shape == (count,)
    assert ((values >= 0) & (values < bound)).all()


def test_uniform_int_meets_every_value_equally() -> None:
    counts = np.bincount(inputs.uniform_int(1, "routing", 128_000, 128), minlength=128)
    assert counts.min() > 1000 - 6 * 32
    assert counts.max() < 1000 + 6 * 32


@pytest.mark.parametrize("bound", [0, -1, 2**32 + 1])
def test_uniform_int_refuses_a_bound_it_cannot_serve(bound: int) -> None:
    with pytest.raises(ValueError, match="bound"):
        inputs.uniform_int(1, "routing", 4, bound)


@given(st.integers(0, 2**64 - 1), st.integers(0, 500))
def test_permutation_holds_every_integer_once(seed: int, n: int) -> None:
    assert sorted(inputs.permutation(seed, "experts", n).tolist()) == list(range(n))


def test_permutation_moves_with_the_seed() -> None:
    first = inputs.permutation(1, "experts", 128).tolist()
    assert first != list(range(128))
    assert first != inputs.permutation(2, "experts", 128).tolist()


@pytest.fixture(scope="session")
def print_inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tests/c/print_inputs.c, compiled."""
    program = tmp_path_factory.mktemp("c") / "print_inputs"
    source = Path(__file__).parent / "c" / "print_inputs.c"
    subprocess.run(["cc", "-std=c11", "-O2", str(source), "-o", str(program)], check=True)
    return program


def made_in_c(program: Path, *arguments: object) -> bytes:
    command = [str(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=True).stdout


@pytest.mark.parametrize("seed", [0, 1, 28111, MASK])
@pytest.mark.parametrize("stream", ["weights", "q", "", "größe"])
def test_c_makes_the_same_bits(print_inputs: Path, seed: int, stream: str) -> None:
    streams = {
        ("normal", 200_001, 0): inputs.normal(seed, stream, 200_001),
        ("normal", 1001, 2**40 + 3): inputs.normal(seed, stream, 1001, start=2**40 + 3),
        ("outlier_gain", 5000, 0): inputs.outlier_gain(seed, stream, 5000),
        ("uniform_int", 5000, 60): inputs.uniform_int(seed, stream, 5000, 60),
        ("permutation", 5000, 0): inputs.permutation(seed, stream, 5000),
    }
    for (kind, count, extra), expected in streams.items():
        got = made_in_c(print_inputs, kind, seed, stream, count, extra)
        assert got == expected.tobytes(), kind


def test_every_table_entry_is_the_same_in_c(print_inputs: Path) -> None:
    count = 4 << 20  # enough to meet each of 65536 lanes
    expected = inputs.normal(1, "table", count)
    assert len(np.unique(expected)) == len(np.unique(inputs._table("float32")))
    assert made_in_c(print_inputs, "normal", 1, "table", count, 0) == expected.tobytes()
