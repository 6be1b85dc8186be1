"""llama-bench's range syntax against its definition, on generated ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggmlprobe.errors import UsageError
from ggmlprobe.ranges import LONGEST, parse_positive, parse_range

numbers = st.integers(0, 10_000)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("7", (7,)),
        ("1,2,4", (1, 2, 4)),
        ("1-8", (1, 2, 3, 4, 5, 6, 7, 8)),
        ("1-8+1", (1, 2, 3, 4, 5, 6, 7, 8)),
        ("1-8+3", (1, 4, 7)),
        ("1-64*2", (1, 2, 4, 8, 16, 32, 64)),
        ("3-50*4", (3, 12, 48)),
        ("1-9,16,17", (1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17)),
        ("5-5", (5,)),
        ("5-5*2", (5,)),
        ("8,1-3,2", (8, 1, 2, 3)),
        (" 1 , 2-3 ", (1, 2, 3)),
        ("0", (0,)),
        ("0-2", (0, 1, 2)),
    ],
)
def test_syntax(text: str, values: tuple[int, ...]) -> None:
    assert parse_range(text) == values


@pytest.mark.parametrize(
    "text",
    [
        "", ",", "1,", "a", "1-", "-1", "1--2", "1-8-2", "1-8+", "1-8/2", "1+2", "1*2", "1.5",
        "1-8+1+1", "0x10", "1 2", "8-1", "1-8+0", "1-8*1", "1-8*0", "0-8*2", "1-2147483647",
    ],
)  # fmt: skip
def test_bad_syntax_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_range(text)
    assert "\n" not in str(raised.value)
    assert f"'{text}'" in str(raised.value) or "''" in str(raised.value)


@given(st.lists(numbers, min_size=1, max_size=20))
def test_a_list_gives_its_numbers_in_order_each_once(values: list[int]) -> None:
    assert parse_range(",".join(map(str, values))) == tuple(dict.fromkeys(values))


@given(numbers, st.integers(0, 500), st.integers(1, 50))
def test_plus_is_an_arithmetic_range(first: int, length: int, step: int) -> None:
    last = first + length
    assert parse_range(f"{first}-{last}+{step}") == tuple(range(first, last + 1, step))


@given(st.integers(1, 1000), st.integers(0, 100_000), st.integers(2, 9))
def test_star_is_a_geometric_range(first: int, length: int, factor: int) -> None:
    values = parse_range(f"{first}-{first + length}*{factor}")
    assert values == tuple(
        first * factor**n for n in range(40) if first * factor**n <= first + length
    )


def test_the_longest_list_is_accepted_and_one_more_is_not() -> None:
    assert len(parse_range(f"1-{LONGEST}")) == LONGEST
    with pytest.raises(UsageError, match=str(LONGEST)):
        parse_range(f"0-{LONGEST}")


def test_positive_values_exclude_zero() -> None:
    assert parse_positive("1-3") == (1, 2, 3)
    with pytest.raises(UsageError, match="at least 1"):
        parse_positive("0-3")
