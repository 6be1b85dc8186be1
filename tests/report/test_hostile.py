"""Files that are truncated, edited, foreign or newer: one line each, and never a traceback."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ggmlprobe import record as rec
from ggmlprobe.cli import main
from ggmlprobe.errors import ProbeError, RecordError
from ggmlprobe.record import (
    AxisRun,
    Bisection,
    CaseClasses,
    Config,
    Kernel,
    Record,
    Result,
    Slowdown,
    TimeStats,
)
from ggmlprobe.report import EXPORTS, own, paste
from ggmlprobe.report.changes import check_comparable, news, paired
from ggmlprobe.report.diff import FORMATS as DIFFS
from ggmlprobe.report.repro import Numbers, TypeSize, cases_of, lines, program, struct

Rows = Callable[..., Result]
Make = Callable[..., Record]

NUMBERS = Numbers(
    {"MUL_MAT": 29, "FLASH_ATTN_EXT": 74},
    {"f32": TypeSize(0, 1, 4), "f16": TypeSize(1, 1, 2), "q4_K": TypeSize(12, 256, 144)},
)
TIME = TimeStats(1e-3, 0.9e-3, 1.1e-3, 3, 2, 1 << 20, 1 << 20, False, 0.01, 5.0, 6.0, [1e-3, 2e-3])
PRODUCT = {
    "type_a": "q4_K", "type_b": "f32", "m": 64, "k": 512, "bs": [1, 1], "nr": [1, 1],
    "per": [0, 1, 2, 3], "k_v": 0, "prec": "default", "activations": "normal",
}  # fmt: skip
ATTENTION = {
    "hsk": 64, "hsv": 64, "nh": 2, "nr23": [4, 1], "kv": 512, "cells": 500, "mask": True,
    "window": 0, "sinks": False, "max_bias": 0.0, "logit_softcap": 0.0, "prec": "f32",
    "type_K": "f16", "type_V": "f16", "v_is_view_of_k": False, "layout": "cache",
}  # fmt: skip


@pytest.fixture
def whole(result: Rows, record: Make) -> Record:
    """A record that has something in every part of the formats."""
    kernels = [Kernel("void f<(int)4, true>(float)", 0.5, 100, 2, [1, 2, 3], [32, 1, 1], 0, 1e-3)]
    rows = [
        result(1, params=PRODUCT, time=TIME, kernels=kernels),
        result(4, [0, 2], params=PRODUCT, time=TIME, kernels=kernels, kernels_note="few"),
        result(1, params=ATTENTION, op="FLASH_ATTN_EXT"),
        result(2, [0], params=ATTENTION, op="FLASH_ATTN_EXT", nan=3),
        result(3, params=ATTENTION, op="FLASH_ATTN_EXT", verdict="CRASH", signal="SIGILL",
               stderr_tail=["GGML_ASSERT(x)"], seeds=[]),
    ]  # fmt: skip
    classes = [
        CaseClasses(row.case, "c0", [[1], [row.width]], False, [[1, row.width]], [[1]])
        for row in (rows[1], rows[3])
    ]
    return record(rows, classes=classes)


def one_line(error: ProbeError) -> None:
    """See that an error's text is a line of ASCII."""
    assert re.fullmatch("[ -~]+", str(error))


def use(made: Record, other: Record) -> None:
    """Everything that is done with records; errors that end in one line are fine."""
    for render in [*EXPORTS.values(), own.renderer(made), paste.block]:
        assert render(made).isascii()
    for pairs in (paired(made, other), paired(other, made, device=False)):
        for render_pairs in DIFFS.values():
            render_pairs(pairs)
        try:
            check_comparable(pairs)
        except ProbeError as error:
            one_line(error)
    news(made, other)
    emit: list[Callable[..., str]] = [program, struct, lambda case: lines(case, NUMBERS)]
    try:
        cases = cases_of(made)
    except ProbeError:
        return
    for case in cases:
        for text in emit:
            try:
                assert text(case).isascii()
            except ProbeError as error:
                one_line(error)


@pytest.fixture(params=["plain", "ab", "bisected"])
def kind(request: pytest.FixtureRequest, whole: Record, config: Config) -> Record:
    """The same, and records of commands that have tables of their own."""
    case = whole.results[0].case
    if request.param == "ab":
        times = [Slowdown(case, width, 1.1, 1.0, 1.2, 1.0, 0.9, 1.1) for width in (1, 4)]
        rows = [*whole.results, *(replace(row, config="c1") for row in whole.results)]
        return replace(whole, configs=[config, replace(config, id="c1")], results=rows, ab=times)
    if request.param == "bisected":
        found = Bisection("b0", "width", "c0", case, 1, 8, 1, False, 8, 2, boundaries=[[1, 4]],
                          assumed=[[4, 8]], returning={"A": [4]}, periods=[[2, 1, 4]])  # fmt: skip
        runs = [AxisRun("b0", w, "c0", case, "AB"[w > 1], "INVARIANT") for w in (1, 4)]
        return replace(whole, runs=runs, bisections=[found])
    return whole


def test_whole_record_is_used_without_error(kind: Record, whole: Record) -> None:
    use(kind, whole)


def paths(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Places of all values in JSON data."""
    if path:
        yield path
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from paths(value, (*path, key))


def edited(data: Any, path: tuple[Any, ...], value: Any, remove: bool) -> Any:
    """The data with one value replaced, or taken out."""
    changed = copy.deepcopy(data)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    if remove:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return changed


SCALARS = (
    st.none() | st.booleans() | st.text(max_size=8)
    | st.integers(-3, 20) | st.integers(-(10**30), 10**30)
    | st.sampled_from([0.0, -0.0, -1.5, 1e-300, 1e300, 5e-324])
    | st.sampled_from(["*/", "\\", '"', "=1+1", "@x", "f16", "q4_K", "MUL_MAT", "INVARIANT", "c0"])
)  # fmt: skip
VALUES = st.recursive(SCALARS, lambda each: st.lists(each, max_size=3), max_leaves=4)
FEW = settings(
    max_examples=300, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip


@FEW
@given(data=st.data())
def test_edited_records(kind: Record, whole: Record, data: st.DataObject) -> None:
    plain = rec.to_dict(kind)
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(list(paths(plain))))
        plain = edited(plain, path, data.draw(VALUES), data.draw(st.booleans()))
    try:
        made = rec.loads(json.dumps(plain))
    except RecordError as error:
        one_line(error)
    else:
        use(made, whole)


@FEW
@given(cut=st.floats(0, 1, exclude_max=True))
def test_truncated_records(whole: Record, cut: float) -> None:
    text = EXPORTS["json"](whole).rstrip()
    with pytest.raises(RecordError):
        rec.loads(text[: int(cut * len(text))])


@FEW
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_foreign_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(content)
    with pytest.raises(RecordError) as refused:
        rec.load(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "no ggmlprobe record"),
        (b'{"schema": 999, "configs": []}', "schema 999 is newer than this ggmlprobe reads"),
        (b'{"schema": 1, "configs": []}', "missing"),
        (b"\xff\xfe", "no text"),
        (b"[" * 100000, "not JSON"),
        (b"1" * 10000, "not JSON"),
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        ["repro", "FILE"],
        ["repro", "FILE", "--list"],
        ["diff", "FILE", "FILE"],
        ["report", "FILE"],
        ["op", "mul_mat", "--type", "f32", "--m", "8", "--k", "8", "--baseline", "FILE"],
    ],
)
def test_every_command_says_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str], content: bytes,
    says: str,
) -> None:  # fmt: skip
    path = tmp_path / "run.json"
    path.write_bytes(content)
    arguments = [str(path) if each == "FILE" else each for each in command]
    with pytest.raises(SystemExit) as ended:
        main(arguments, prog_name="ggmlprobe")
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("ggmlprobe: ")
    assert f"{path}: " in err
    assert says in err
    assert isinstance(main, click.Group)
