"""Every verdict is reached, and each takes precedence over the ones below it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import combinations, product

import pytest

from ggmlprobe.verdict import FINDINGS, PRECISION_FLOOR, Evidence, Verdict, judge, worst

ORDER = [
    "CRASH", "TIMEOUT", "OOM", "UNSUPPORTED", "NAN",
    "NONDETERMINISTIC", "WRONG", "PRECISION", "MISMATCH", "INVARIANT",
]  # fmt: skip
BOUND = 5e-4
CLEAN = Evidence(
    0, 0, repeats=True, differs=False, nmse_serial=2e-6, nmse_width=2e-6, bound=BOUND, elements=64
)

# What turns clean evidence into each verdict that judge() gives, highest precedence first.
SYMPTOMS = {
    Verdict.NAN: [{"nan": 1}, {"unwritten": 1}],
    Verdict.NONDETERMINISTIC: [{"repeats": False}],
    Verdict.WRONG: [{"nmse_serial": 6e-4}, {"nmse_width": 6e-4}, {"nmse_width": math.nan}],
    Verdict.PRECISION: [{"differs": True, "nmse_width": 2e-5}],
    Verdict.MISMATCH: [{"differs": True}],
}


@pytest.mark.parametrize(
    ("verdict", "symptom"), [(v, s) for v, symptoms in SYMPTOMS.items() for s in symptoms]
)
def test_each_symptom_gives_its_verdict(verdict: Verdict, symptom: dict[str, float]) -> None:
    assert judge(replace(CLEAN, **symptom)) is verdict


def test_no_symptom_is_invariant() -> None:
    assert judge(CLEAN) is Verdict.INVARIANT


@pytest.mark.parametrize(
    ("higher", "first", "second"),
    [
        (higher, first, second)
        for higher, lower in combinations(SYMPTOMS, 2)
        for first, second in product(SYMPTOMS[higher], SYMPTOMS[lower])
    ],
)
def test_the_higher_of_two_symptoms_decides(
    higher: Verdict, first: dict[str, float], second: dict[str, float]
) -> None:
    assert judge(replace(CLEAN, **(second | first))) is higher


def test_precedence_is_the_documented_order() -> None:
    assert [str(v) for v in Verdict] == ORDER


def test_verdict_prints_and_serializes_as_its_name() -> None:
    assert f"{Verdict.OOM} {Verdict.OOM:<9}|" == "OOM OOM      |"
    assert json.dumps([Verdict.OOM]) == '["OOM"]'
    assert Verdict("OOM") == "OOM"


@pytest.mark.parametrize(("higher", "lower"), list(combinations(ORDER, 2)))
def test_worst_of_a_pair_is_the_higher(higher: str, lower: str) -> None:
    assert worst([Verdict(lower), Verdict(higher)]) is Verdict(higher)
    assert worst([Verdict(higher), Verdict(lower)]) is Verdict(higher)


def test_worst_of_no_case_is_no_pass() -> None:
    with pytest.raises(ValueError, match="empty"):
        worst([])


def test_findings_are_all_but_invariant_and_unsupported() -> None:
    assert {str(v) for v in FINDINGS} == set(ORDER) - {"INVARIANT", "UNSUPPORTED"}


def test_few_elements_or_no_bound_accuse_nobody() -> None:
    off = replace(CLEAN, nmse_width=0.1)
    assert judge(off) is Verdict.WRONG
    assert judge(replace(off, elements=63)) is Verdict.INVARIANT
    assert judge(replace(off, bound=math.inf)) is Verdict.INVARIANT
    assert judge(replace(off, elements=1, nmse_width=math.nan)) is Verdict.WRONG


def test_error_at_the_bound_is_not_wrong() -> None:
    assert judge(replace(CLEAN, nmse_serial=BOUND, nmse_width=BOUND)) is Verdict.INVARIANT


@pytest.mark.parametrize("nmse", [math.nan, math.inf])
def test_error_that_is_no_number_is_wrong(nmse: float) -> None:
    assert judge(replace(CLEAN, nmse_serial=nmse)) is Verdict.WRONG


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (2e-6, 2e-5, Verdict.PRECISION),
        (2e-6, 1.9e-5, Verdict.MISMATCH),
        (0.0, 1e-6, Verdict.PRECISION),
        (0.0, 0.0, Verdict.MISMATCH),
        (1e-13, 5e-8, Verdict.PRECISION),
        (1e-15, 1e-13, Verdict.MISMATCH),
        (0.0, PRECISION_FLOOR / 2, Verdict.MISMATCH),
    ],
)
def test_precision_needs_ten_times_above_rounding_noise(
    low: float, high: float, verdict: Verdict
) -> None:
    for serial, width in ((low, high), (high, low)):
        evidence = replace(CLEAN, differs=True, nmse_serial=serial, nmse_width=width)
        assert judge(evidence) is verdict


def test_equal_bits_are_never_a_precision_difference() -> None:
    assert judge(replace(CLEAN, nmse_width=1e-4)) is Verdict.INVARIANT
