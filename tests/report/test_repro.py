"""Reproducers of hostile records: whatever their strings hold, the text is C and nothing more."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ggmlprobe.errors import UsageError
from ggmlprobe.record import Config, Record, Result
from ggmlprobe.report.repro import cases_of, chosen, link_line, program, run_line, struct
from ggmlprobe.report.repro.template import conditional, fill, literal

Rows = Callable[..., Result]
Make = Callable[..., Record]

HOSTILE = '*/ int stolen; /* "); system("x"); // ??/ \\ \n#include "y" @op@ $(id) `id`'
PARAMS = {
    "type_a": "q4_K", "type_b": "f32", "m": 64, "k": 512, "bs": [1, 1], "nr": [1, 1],
    "per": [0, 1, 2, 3], "k_v": 0, "prec": "default", "activations": "normal",
}  # fmt: skip


def test_hostile_strings_stay_strings_and_comments(
    result: Rows, record: Make, config: Config, tmp_path: Path
) -> None:
    params = PARAMS | {"type_a": HOSTILE, "type_b": HOSTILE}
    row = result(2, [1], params=params, case=HOSTILE, upstream_case=HOSTILE)
    device = replace(config.device, name=HOSTILE)
    env = {HOSTILE: HOSTILE, "A": HOSTILE}
    configs = [replace(config, device=device, buft=HOSTILE, env=env)]
    (case,) = cases_of(record([row], configs=configs, command=HOSTILE))
    path = tmp_path / "repro.c"
    path.write_text(program(case))
    checks = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-std=gnu11"]
    subprocess.run(["cc", *checks, str(path)], check=True)
    assert '\n#include "y"' not in path.read_text()
    outside = subprocess.run(["cc", "-E", "-P", str(path)], check=True, capture_output=True)
    assert b"int stolen" not in outside.stdout
    assert "'" in run_line(case)
    assert run_line(case).startswith("A='*/ int stolen;")
    with pytest.raises(UsageError, match="its parameter type_a is"):
        struct(case)


def test_literal() -> None:
    assert literal('a"\\\n*\u00e9?0') == r'"a\042\134\012\052\303\251\0770"'


def test_templates() -> None:
    text = "a //? X\nb //? !X\nc //? X !Y\nd @p@\n"
    assert conditional(text, {"X": True, "Y": False}) == "a\nc\nd @p@\n"
    assert conditional(text, {"X": False, "Y": False}) == "b\nd @p@\n"
    assert fill("@p@ @q@", {"p": "@q@", "q": "1"}) == "@q@ 1"


def test_link_line_quotes() -> None:
    line = link_line(["/a b/libggml.so"], "/a b")
    assert "'/a b/libggml.so' '-Wl,-rpath,/a b'" in line


@pytest.mark.parametrize("removed", [{}, {"GGML_X": None}])
@pytest.mark.parametrize(
    "value", ["~", "~/a b/$x", "/a:~/b:~:", "~:/c d", "~other/a", "/a~/b", "a ~/b", "no home"]
)
def test_the_run_line_has_the_home_that_the_record_hides(
    result: Rows, record: Make, config: Config, tmp_path: Path, value: str,
    removed: dict[str, str | None],
) -> None:  # fmt: skip
    configs = [replace(config, env={"VK_DRIVER_FILES": value, **removed})]
    (case,) = cases_of(record([result(2)], configs=configs))
    shown = tmp_path / "repro"
    shown.write_text('#!/bin/sh\nprintf %s "$VK_DRIVER_FILES"\n')
    shown.chmod(0o755)
    home = "/home/a $b"
    line = ["sh", "-c", run_line(case)]
    done = subprocess.run(
        line, cwd=tmp_path, env={"HOME": home, "PATH": os.environ["PATH"]}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    paths = [home + path[1:] if path == "~" or path[:2] == "~/" else path
             for path in value.split(":")]  # fmt: skip
    assert done.stdout == ":".join(paths)


def test_what_a_program_cannot_have(result: Rows, record: Make, config: Config) -> None:
    def refused(**changes: object) -> str:
        row = result(2, **({"params": PARAMS} | changes))
        with pytest.raises(UsageError) as told:
            program(cases_of(record([row]))[0])
        return str(told.value)

    assert "there is none for ADD" in refused(op="ADD")
    assert "no width of it was compared (CRASH)" in refused(verdict="CRASH", seeds=[])
    for name, value in (("m", 0), ("m", True), ("k", 2**40), ("bs", [1]), ("bs", [0, 1]),
                        ("type_a", None), ("activations", "odd"), ("k_v", 600)):  # fmt: skip
        assert refused(params=PARAMS | {name: value}).startswith("no reproducer of case 1: ")
    forced = record([result(2, params=PARAMS)], configs=[replace(config, arm="mmvq")])
    with pytest.raises(UsageError, match="forced path"):
        program(cases_of(forced)[0])
    scheduled = record([result(2, params=PARAMS, backends=["BLAS"])])
    for emit in (program, struct):
        with pytest.raises(UsageError, match="a single device"):
            emit(cases_of(scheduled)[0])
    device = replace(config.device, endpoint="10.0.0.5:50052")
    there = record([result(2, params=PARAMS)], configs=[replace(config, device=device)])
    for emit in (program, struct):
        with pytest.raises(UsageError, match="on a server"):
            emit(cases_of(there)[0])


def test_cases_are_numbered_and_chosen(result: Rows, record: Make) -> None:
    rows = [result(1, params={"m": 1}), result(1, params={"m": 2}), result(2, [0], params={"m": 2})]
    cases = cases_of(record(rows))
    assert [(case.number, len(case.rows)) for case in cases] == [(1, 1), (2, 2)]
    assert chosen(cases, None).number == 2
    assert chosen(cases[:1], None).number == 1
    with pytest.raises(UsageError, match="not from 1 to 2"):
        chosen(cases, 3)
    with pytest.raises(UsageError, match="no results"):
        cases_of(record([]))
