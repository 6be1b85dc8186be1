"""A C program that makes a case's inputs bit for bit and compares each width with width 1.

The templates are read with the names that ops/ and tests/c/ use; a value goes into the text only
as a checked integer, a float, or an escaped string, whatever the record holds.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from itertools import pairwise

from ggmlprobe.inputs import QUANTILES
from ggmlprobe.report.repro.case import Case
from ggmlprobe.report.repro.program_values import SETTERS, Made, Values, made_of
from ggmlprobe.report.repro.template import comment, conditional, fill, literal, template
from ggmlprobe.report.text import ascii_line

SOURCE = "repro.c"
LINE, STEPS_LINE = 118, 190


def program(case: Case, source: str = SOURCE) -> str:
    """The program's text.

    Args:
        source: file name that its head's build line gives it.

    Raises:
        UsageError: a case that it cannot reproduce; says why.
    """
    made = made_of(case)
    op = fill(conditional("".join(map(template, made.parts)), made.flags), _op_places(case, made))
    whole = fill(conditional(template("program.c"), made.flags), {
        "op": op.rstrip("\n"), "steps": _steps(), "comment": "@comment@",
        "constants": "@constants@",
    })  # fmt: skip
    constants = _constants(case, made.values, whole)
    return fill(whole, {"comment": comment(_comment(case, source)), "constants": constants})


def compile_line(source: str) -> str:
    """The command that compiles the program, beside it."""
    return f"cc -std=gnu11 -O1 {shlex.quote(source)} -o {shlex.quote(_binary(source))}"


def _binary(source: str) -> str:
    stem = source.removesuffix(".c")
    return stem if stem != source else f"{source}.out"


def link_line(files: list[str], directory: str, source: str = SOURCE) -> str:
    """The command that builds the program against the files of a library."""
    given = " ".join(map(shlex.quote, files))
    # a library that others' symbols are missing from (a node addon) links all the same
    loose = "-Wl,-z,lazy -Wl,--unresolved-symbols=ignore-in-shared-libs"
    return f"{compile_line(source)} {given} {shlex.quote(f'-Wl,-rpath,{directory}')} {loose}"


def run_line(case: Case, source: str = SOURCE) -> str:
    """How to run the program: with the variables that the run had."""
    unset = [f"-u {shlex.quote(name)}" for name, value in case.env.items() if value is None]
    # a name that no shell takes as one is in no record that a run made
    set_to = {k: v for k, v in case.env.items() if v is not None and k.isidentifier()}
    given = [f"{name}={_with_home(value)}" for name, value in set_to.items()]
    binary = _binary(source)
    program_path = binary if "/" in binary else f"./{binary}"
    return ascii_line(
        " ".join([*(["env", *unset] if unset else []), *given, shlex.quote(program_path)])
    )


def _with_home(value: str) -> str:
    """A value quoted for a shell, in which a path below ~, as the record has it, is below $HOME."""
    paths = value.split(":")
    if not any(path.partition("/")[0] == "~" for path in paths):
        return shlex.quote(value)
    return ":".join(
        f'"$HOME"{shlex.quote(path[1:]) if path[1:] else ""}'
        if path.partition("/")[0] == "~"
        else shlex.quote(path)
        for path in paths
    )


def _comment(case: Case, source: str) -> list[str]:
    return [
        f"{case.command} (case {case.number})",
        ascii_line(case.rows[-1].upstream_case),
        "found there: " + "; ".join(case.found()),
        f"build: {compile_line(source)} -L$LIB -lggml -lggml-base -Wl,-rpath,$LIB",
        f"run: {run_line(case, source)} "
        "# 1 if a column of a width differs in bits from the column alone",
    ]


def _op_places(case: Case, made: Made) -> dict[str, str]:
    flags = made.flags
    tensors = {"v_cache": not flags["V_IN_K"], "sinks": flags["SINKS"]}
    return {
        "setter": SETTERS.get(case.op, ""),
        "tensors": ", ".join(["k_cache", "q", "mask", *(n for n, used in tensors.items() if used)]),
        "floats": "queries, * sink_values" if flags["SINKS"] else "queries",
        "outside": str(int(flags["OUTSIDE"])),
        "query": "(t/n*HEADS*n + h*n + t%n)" if flags["OUTSIDE"] else "i",
        "bias": "-(float) d" if made.values.get("MAX_BIAS") else "0",
        "mask_type": "f32" if flags["NOFA"] else "f16",
        "rows": "(n + 63)/64*64" if flags["PADDED"] and not flags["NOFA"] else "n",
    }


def _steps() -> str:
    """Distances of the quantiles, the first from 0."""
    lines = [""]
    for low, high in pairwise((0, *QUANTILES)):
        if len(lines[-1]) > STEPS_LINE:
            lines.append("")
        lines[-1] += f"{high - low},"
    return "\n".join(lines).rstrip(",")


def _constants(case: Case, values: Values, text: str) -> str:
    """Declarations of the constants that the text uses, by type."""
    seeds = ", ".join(f"{part.seed}u" for part in case.compared[0].seeds)
    widths = ", ".join(str(row.width) for row in case.compared)
    named: dict[str, list[str]] = {
        "uint64_t": [f"SEEDS[] = {{{seeds}}}"], "char": [], "int64_t": [f"WIDTHS[] = {{{widths}}}"],
        "double": [],
    }  # fmt: skip
    for name, value in values.items():
        if re.search(rf"\b{name}\b", text):
            kind, declared = _declared(name, value)
            named[kind].append(declared)
    texts = [f"static const {kind} {', '.join(each)};" for kind, each in named.items() if each]
    return "\n".join(
        textwrap.fill(each, LINE, subsequent_indent="    ", break_long_words=False,
                      break_on_hyphens=False)
        for each in texts
    )  # fmt: skip


def _declared(name: str, value: int | float | str) -> tuple[str, str]:
    if isinstance(value, str):
        return "char", f"{name}[] = {literal(value)}"
    return "double" if isinstance(value, float) else "int64_t", f"{name} = {value!r}"
