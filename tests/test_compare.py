"""Differences between two evaluations, each figure against a definition computed another way."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggmlprobe import compare as c

FLOAT_MAX = float(np.finfo(np.float32).max)
DENORMAL = float(np.float32(2.0**-149))
bits = st.integers(0, 2**32 - 1)
finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


def row(*values: float) -> np.ndarray:
    return np.array([values], dtype=np.float32)


def from_bits(*patterns: int) -> np.ndarray:
    return np.array([patterns], dtype=np.uint32).view(np.float32)


def position(x: np.float32) -> int:
    """Place of a finite float among all floats, from its binade and spacing, by fractions."""
    magnitude = Fraction(abs(float(x)))
    binade = max(math.frexp(float(x))[1] - 1, -126) if x else -126
    steps = magnitude / Fraction(2) ** (binade - 23)
    below = (binade + 126) * 2**23
    assert steps.denominator == 1
    return (below + int(steps)) * (-1 if x < 0 else 1)


@given(finite, finite)
def test_max_ulp_is_the_number_of_floats_between(a: float, b: float) -> None:
    expected = abs(position(np.float32(a)) - position(np.float32(b)))
    assert c.compare(row(a), row(b)).max_ulp == expected


@given(finite, st.integers(1, 40))
def test_max_ulp_counts_steps_of_nextafter(a: float, steps: int) -> None:
    b = np.float32(a)
    for _ in range(steps):
        b = np.nextafter(b, np.float32(-FLOAT_MAX))
    if b > -FLOAT_MAX:
        assert c.compare(row(a), row(b)).max_ulp == steps


@given(st.floats(min_value=2.0**-126, max_value=2.0**127, width=32))
def test_one_spacing_up_is_one_ulp(a: float) -> None:
    up = np.float32(a) + np.spacing(np.float32(a))
    assert c.compare(row(a), row(up)).max_ulp == 1


@pytest.mark.parametrize(
    ("a", "b", "ulp"),
    [
        (1.0, 1.0 + 2.0**-23, 1),
        (1.0, 1.0 - 2.0**-24, 1),
        (-1.0, -1.0 - 2.0**-23, 1),
        (0.0, DENORMAL, 1),
        (-0.0, DENORMAL, 1),
        (-DENORMAL, DENORMAL, 2),
        (-1.0, 1.0, 2 * 0x3F800000),
        (-FLOAT_MAX, FLOAT_MAX, 2 * 0x7F7FFFFF),
    ],
)
def test_max_ulp_of_known_pairs(a: float, b: float, ulp: int) -> None:
    assert c.compare(row(a), row(b)).max_ulp == ulp
    assert c.compare(row(b), row(a)).max_ulp == ulp


def test_equal_outputs_have_no_difference() -> None:
    a = row(1.0, -0.0, math.inf, math.nan)
    assert c.compare(a, a.copy()) == c.Difference(elements=4)


def test_columns_are_the_tokens_that_differ_in_any_bit() -> None:
    serial = np.ones((5, 3), dtype=np.float32)
    wide = serial.copy()
    wide[1, 2] = np.nextafter(np.float32(1), np.float32(2))
    wide[4] = -1
    difference = c.compare(serial, wide)
    assert difference.columns == [1, 4]
    assert (difference.elements, difference.elements_differing) == (15, 4)


def test_zeros_infinities_and_nans_are_counted_apart() -> None:
    inf, nan = math.inf, math.nan
    serial = row(0.0, -0.0, inf, inf, 1.0, nan, 1.0, inf, nan, 2.0)
    wide = row(-0.0, 0.0, -inf, 1.0, -inf, 1.0, nan, nan, nan, 2.5)
    difference = c.compare(serial, wide)
    assert (difference.signed_zero, difference.infinite, difference.nan) == (2, 3, 3)
    assert difference.elements_differing == 9
    assert (difference.max_ulp, difference.max_abs) == (2**21, 0.5)
    assert sum(difference.ulp_histogram.values()) == 1


def test_nans_of_other_bits_differ() -> None:
    difference = c.compare(from_bits(0x7FC00000), from_bits(0x7FC00001))
    assert (difference.columns, difference.nan, difference.max_ulp) == ([0], 1, 0)


@given(st.lists(st.tuples(bits, bits), min_size=1, max_size=60))
def test_every_pair_is_counted_once(pairs: list[tuple[int, int]]) -> None:
    serial, wide = from_bits(*[a for a, _ in pairs]), from_bits(*[b for _, b in pairs])
    kinds: Counter[str] = Counter()
    for (p, q), x, y in zip(pairs, serial[0].tolist(), wide[0].tolist(), strict=True):
        if p != q:
            either = (x, y)
            if any(map(math.isnan, either)):
                kinds["nan"] += 1
            elif any(map(math.isinf, either)):
                kinds["infinite"] += 1
            else:
                kinds["zero" if x == y else "finite"] += 1
    seen = c.compare(serial, wide)
    assert (seen.nan, seen.infinite, seen.signed_zero) == (
        kinds["nan"],
        kinds["infinite"],
        kinds["zero"],
    )
    assert sum(seen.ulp_histogram.values()) == kinds["finite"]
    assert seen.elements_differing == kinds.total()


def bucket_holds(bucket: str, distance: int) -> bool:
    low, _, high = bucket.partition("-")
    return int(low) <= distance <= int(high or low)


@given(st.lists(st.integers(1, 2**32 - 2**24), min_size=1, max_size=40))
def test_histogram_counts_each_distance_in_the_bucket_that_holds_it(distances: list[int]) -> None:
    histogram = c._histogram(np.array(distances, dtype=np.int64))
    for bucket, count in histogram.items():
        assert count == sum(bucket_holds(bucket, d) for d in distances)
    assert sum(histogram.values()) == len(distances)
    assert list(histogram) == sorted(histogram, key=lambda b: int(b.split("-")[0]))


@pytest.mark.parametrize("power", range(2, 32))
def test_histogram_buckets_end_at_powers_of_two(power: int) -> None:
    edge = 1 << power
    histogram = c._histogram(np.array([edge // 2, edge // 2 + 1, edge, edge + 1]))
    assert histogram[f"{edge // 2 + 1}-{edge}"] == 2
    assert histogram[f"{edge + 1}-{2 * edge}"] == 1


def test_first_buckets_are_one_two_and_three_to_four() -> None:
    assert c._histogram(np.array([1, 2, 3, 4, 5])) == {"1": 1, "2": 1, "3-4": 2, "5-8": 1}


def test_max_abs_does_not_round_to_float32() -> None:
    assert c.compare(row(-FLOAT_MAX), row(FLOAT_MAX)).max_abs == 2 * FLOAT_MAX


@pytest.mark.parametrize(
    ("serial", "wide"),
    [
        (np.zeros((1, 2), np.float32), np.zeros((2, 1), np.float32)),
        (np.zeros((1, 2), np.float32), np.zeros((1, 2), np.float64)),
        (np.zeros((1, 2), np.float16), np.zeros((1, 2), np.float16)),
    ],
)
def test_compare_refuses_other_shapes_and_types(serial: np.ndarray, wide: np.ndarray) -> None:
    with pytest.raises(ValueError, match="cannot compare"):
        c.compare(serial, wide)


def test_merge_adds_counts_and_joins_columns() -> None:
    parts = [
        c.compare(np.zeros((3, 1), np.float32), np.array([[0], [1], [2]], np.float32)),
        c.compare(row(1.0, 1.0), row(1.0, 1.0 + 2.0**-23)),
        c.compare(row(0.0, math.nan, math.inf), row(-0.0, 0.0, 0.0)),
        c.compare(row(1.0), row(1.0)),
    ]
    merged = c.merge(parts)
    assert merged.columns == [0, 1, 2]
    assert (merged.elements, merged.elements_differing) == (9, 6)
    assert (merged.signed_zero, merged.nan, merged.infinite) == (1, 1, 1)
    assert (merged.max_abs, merged.max_ulp) == (2.0, parts[0].max_ulp)
    assert list(merged.ulp_histogram.values()) == [1, 2]
    assert next(iter(merged.ulp_histogram)) == "1"


def test_merge_of_nothing_is_no_difference() -> None:
    assert c.merge([]) == c.Difference()


def test_hash_depends_on_every_bit() -> None:
    token = row(0.0, 1.0, 2.0)[0]
    flipped = token.copy()
    flipped[0] = -0.0
    assert c.hash_token(token) == c.hash_token(token.copy())
    assert c.hash_token(token) != c.hash_token(flipped)
    assert len(c.hash_token(token)) == 16


def test_hash_of_a_strided_token_is_that_of_its_values() -> None:
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert c.hash_token(table[:, 1]) == c.hash_token(np.array([1, 3, 5], np.float32))


def test_unwritten_counts_only_its_own_bits() -> None:
    out = from_bits(c.UNWRITTEN, 0x7FC00000, c.UNWRITTEN ^ 1, c.UNWRITTEN, 0)
    assert np.isnan(out[0, 0])
    assert c.unwritten(out) == 2


def test_unwritten_pattern_survives_a_copy() -> None:
    # A signalling NaN would be quieted on the way through a floating-point register.
    assert (c.UNWRITTEN & 0x7FC00000) == 0x7FC00000


@given(st.lists(st.tuples(finite, finite), min_size=1, max_size=20))
def test_sum_sq_error_matches_exact_arithmetic(pairs: list[tuple[float, float]]) -> None:
    out, ref = np.array(pairs, dtype=np.float32).T
    error, norm = c.sum_sq_error(out, ref.astype(np.float64))
    exact_error = sum((Fraction(a) - Fraction(b)) ** 2 for a, b in pairs)
    exact_norm = sum(Fraction(b) ** 2 for _, b in pairs)
    assert error == pytest.approx(float(exact_error), rel=1e-12)
    assert norm == pytest.approx(float(exact_norm), rel=1e-12)


@pytest.mark.parametrize(
    ("error", "reference", "expected"),
    [(0.0, 0.0, 0.0), (1.0, 0.0, math.inf), (1.0, 4.0, 0.25), (math.inf, 4.0, math.inf)],
)
def test_nmse(error: float, reference: float, expected: float) -> None:
    assert c.nmse(error, reference) == expected


def test_nmse_of_a_nan_is_nan() -> None:
    assert math.isnan(c.nmse(*c.sum_sq_error(row(math.nan)[0], np.ones(1))))


def test_infinite_output_against_infinite_reference_is_no_pass() -> None:
    with np.errstate(all="raise"):
        error, reference = c.sum_sq_error(row(math.inf)[0], np.array([math.inf]))
    assert not c.nmse(error, reference) <= 1


def test_max_err_scaled_of_half_an_ulp_of_the_magnitude_is_one() -> None:
    a, b = row(1.0, 4.0)[0], row(1.0 + 2.0**-23, 4.0)[0]
    assert c.max_err_scaled(a, b, np.array([2.0, 1.0])) == 1.0


def test_max_err_scaled_takes_the_worst_element() -> None:
    a, b = row(0.0, 0.0)[0], row(2.0**-20, 2.0**-22)[0]
    assert c.max_err_scaled(a, b, np.array([16.0, 1.0])) == 4.0


@pytest.mark.parametrize(
    ("a", "b", "magnitude", "expected"),
    [
        (1.0, 1.0, 0.0, 0.0),
        (1.0, 2.0, 0.0, math.inf),
        (math.nan, 1.0, 1.0, 0.0),
        (math.inf, math.inf, 1.0, 0.0),
        (math.inf, 1.0, 1.0, 0.0),
    ],
)
def test_max_err_scaled_at_the_edges(a: float, b: float, magnitude: float, expected: float) -> None:
    with np.errstate(all="raise"):
        assert c.max_err_scaled(row(a), row(b), np.array([[magnitude]])) == expected
