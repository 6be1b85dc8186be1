"""The block to paste: table, classes, controls, blanks, environment folded; data, no prose."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace

import click
import pytest
from model_rows import header as model_header
from model_rows import made

from ggmlprobe.cli import main
from ggmlprobe.model.rates import record_of
from ggmlprobe.record import CaseClasses, Config, Kernel, Record, Result
from ggmlprobe.report import FORMATS, arms, matrix, own
from ggmlprobe.report.markdown import table
from ggmlprobe.report.paste import block, fenced

Rows = Callable[..., Result]
Make = Callable[..., Record]

BLOCK = """\
`ggmlprobe op mul_mat --type q4_K --widths 1,4,5`

MUL_MAT type_a=q4_K type_b=f32 m=512 k=1024

| width | class | verdict   | columns | max_ulp | max_err_scaled | nmse_serial | nmse_width |
|------:|-------|-----------|---------|--------:|---------------:|------------:|-----------:|
|     1 | A     | INVARIANT | -       |       0 |              0 |    1.23e-13 |    2.5e-13 |
|     4 | B     | MISMATCH  | all     |    1234 |          0.988 |    1.23e-13 |    2.5e-13 |
|     5 | B     | MISMATCH  | 0-3     |    1234 |          0.988 |    1.23e-13 |    2.5e-13 |

- `MUL_MAT(type_a=q4_K,type_b=f32,m=512,k=1024,n=4)`: A: 1 | B: 4,5 (not transitive: `1~5`); \
first differing width: 4

| control              | result                                    |
|----------------------|-------------------------------------------|
| same-width repeat    | same bits twice in 3 of 3 rows, seeds 0-2 |
| f16 or bf16 row      | ____ (none in this run)                   |
| NMSE against float64 | serial 1.23e-13, width 2.5e-13            |
| max_err_scaled       | at most 0.988 (width 4)                   |

- to add an f16 row: `ggmlprobe op mul_mat --type q4_K,f16 --widths 1,4,5`

- seeds: 0-2
- findings: 2 of 3 rows (2 MISMATCH, 1 INVARIANT)

- First Bad Commit: ____

<details><summary>environment, library, device, driver, compiler and flags</summary>

```text
c0: buft default, threads 2, threads_batch 2
library: ggml 0.25.3 (0c1e57098), --lib build/bin
device: CPU, Example CPU, CPU, backend CPU, 16384 MiB
  features: AVX2=1
driver: 570.86.15
cpu: Example CPU, 4 cores (2 physical)
os: Example OS 1, Linux 6.1 x86_64
software: ggmlprobe 0.1.0, Python 3.11.7, numpy 2.0.0
date: 2026-01-02T03:04:05+00:00
```

</details>
"""


def control(text: str, name: str) -> str:
    """Result of a control."""
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {name} "))
    return line.split("|")[2].strip()


def with_types(result: Rows, width: int, name: str, **more: object) -> Result:
    row = result(width, params={"type_a": name, "type_b": "f32", "m": 512, "k": 1024})
    return replace(row, **more)  # type: ignore[arg-type]


def test_whole_block(repack_record: Record) -> None:
    assert block(repack_record) == BLOCK


def test_plain_row_beside_the_quantized_one(result: Rows, record: Make) -> None:
    rows = [with_types(result, 1, "q4_K"), with_types(result, 4, "q4_K"),
            with_types(result, 1, "bf16"),
            with_types(result, 4, "bf16", verdict="MISMATCH")]  # fmt: skip
    text = block(record(rows))
    assert control(text, "f16 or bf16 row") == "bf16: 1 INVARIANT at 1, 1 MISMATCH at 4"
    assert "to add an f16 row" not in text


def test_plain_row_of_another_shape_does_not_count(result: Rows, record: Make) -> None:
    other = {"type_a": "f16", "type_b": "f32", "m": 512, "k": 2048}
    rows = [with_types(result, 4, "q4_K"), result(4, params=other)]
    text = block(record(rows))
    assert "____" in control(text, "f16 or bf16 row")
    assert "to add an f16 row" in text


def test_nothing_is_asked_for_beside_plain_types(result: Rows, record: Make) -> None:
    text = block(record([with_types(result, 4, "f16")]))
    assert control(text, "f16 or bf16 row") == "no row is quantized"
    # no finding, so no commit that brought it
    assert "____" not in text


def test_repeats_that_differ_are_counted(result: Rows, record: Make) -> None:
    row = result(4)
    unsteady = replace(row, width=5, seeds=[replace(s, repeats=False) for s in row.seeds])
    text = block(record([row, unsteady]))
    assert control(text, "same-width repeat").startswith("same bits twice in 1 of 2 rows")


def test_rows_without_a_comparison_leave_blanks(result: Rows, record: Make) -> None:
    dead = replace(result(4), verdict="CRASH", seeds=[], signal="SIGABRT")
    text = block(record([dead]))
    names = ("same-width repeat", "f16 or bf16 row", "NMSE against float64", "max_err_scaled")
    assert {control(text, name) for name in names} == {"____"}


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("ggmlprobe op mul_mat --type=q4_K,iq3_s --m 1 --k 256 -o json --force",
         "ggmlprobe op mul_mat --type=q4_K,iq3_s,f16 --m 1 --k 256"),
        ("ggmlprobe op mul_mat --export-json 'a b.json' --resume=x.jsonl -t 1",
         "ggmlprobe op mul_mat -t 1 --type q4_K,f16"),
        ("ggmlprobe sweep flash_attn --type-k q8_0 --type-v q4_0",
         "ggmlprobe sweep flash_attn --type-k q8_0,f16 --type-v q4_0,f16"),
        ("ggmlprobe preset run issue-28111",
         "ggmlprobe op mul_mat --type f16 --m 512 --k 1024 --widths 4 --threads 2 "
         "--threads-batch 2 --device CPU --lib build/bin"),
        ("ggmlprobe op mul_mat 'torn",
         "ggmlprobe op mul_mat --type f16 --m 512 --k 1024 --widths 4 --threads 2 "
         "--threads-batch 2 --device CPU --lib build/bin"),
    ],
)  # fmt: skip
def test_command_that_adds_the_row(result: Rows, record: Make, command: str, wanted: str) -> None:
    text = block(record([result(4)], command=command))
    (line,) = (line for line in text.splitlines() if line.startswith("- to add an f16 row"))
    assert line == f"- to add an f16 row: `{wanted}`"
    _, name, op, *options = shlex.split(wanted)
    group = main.commands[name]
    assert isinstance(group, click.Group)
    group.commands[op].make_context(op, options)


def test_command_that_adds_the_row_on_a_server(result: Rows, record: Make) -> None:
    made = record([result(4)], command="ggmlprobe preset run x")
    device = replace(made.configs[0].device, name="RPC0", endpoint="10.0.0.5:50052")
    text = block(replace(made, configs=[replace(made.configs[0], device=device)]))
    assert "--device rpc://10.0.0.5:50052 " in text.partition("to add an f16 row")[2]


@pytest.mark.parametrize(
    ("op", "params", "wanted"),
    [
        ("FLASH_ATTN_EXT", {"hsk": 128, "hsv": 128, "nh": 8, "nr23": [4, 1], "kv": 512,
                            "cells": 500, "type_K": "q8_0", "type_V": "q8_0"},
         "flash_attn --hsk 128 --hsv 128 --heads 32 --kv-heads 8 --kv 500 --type-k f16"),
        ("MUL_MAT_ID", {"type_a": "q4_K", "m": 8, "k": 256, "n_mats": 4, "n_used": 2},
         "mul_mat_id --type f16 --m 8 --k 256 --experts 4 --used 2"),
    ],
)  # fmt: skip
def test_command_of_other_ops(
    result: Rows, record: Make, op: str, params: dict[str, object], wanted: str
) -> None:
    row = result(4, op=op, params=params)
    text = block(record([row], command="ggmlprobe preset run x"))
    assert f"- to add an f16 row: `ggmlprobe op {wanted} --widths 4 " in text
    name, *options = wanted.split()
    group = main.commands["op"]
    assert isinstance(group, click.Group)
    group.commands[name].make_context(name, options)


def test_stamp_env_and_a_second_config_are_folded(
    result: Rows, record: Make, config: Config
) -> None:
    stamp = {"compiler": "GNU 12.2.0", "flags": "-O3"}
    library = replace(config.library, stamp=stamp, origin="packaged")
    first = replace(config, library=library)
    second = replace(first, id="c1", env={"A": "0", "B": None})
    rows = [result(2), result(2, config="c1")]
    folded = block(record(rows, configs=[first, second])).partition("<details>")[2]
    assert "  compiler: GNU 12.2.0\n  flags: -O3\n" in folded
    assert "c1: buft default, threads 2, threads_batch 2, env A=0 B=\n" in folded
    assert folded.count("library: ") == 1, "what configs share stands once"


def test_kernels_are_in_the_table(repack_record: Record) -> None:
    rows = [replace(row, kernels=[Kernel("f<float>(int)", 1.0)]) for row in repack_record.results]
    text = block(replace(repack_record, results=rows))
    assert r"f\<float> 100%" in text, "or GitHub takes it for a tag"


def test_large_tables_are_folded_under_their_matrix(result: Rows, record: Make) -> None:
    rows = [result(width) for width in range(1, 50)]
    classes = [CaseClasses(rows[0].case, "c0", [list(range(1, 50))], True)]
    text = block(record(rows, classes=classes))
    shown, _, rest = text.partition("<details><summary>49 rows</summary>")
    assert "| 48 | 49 |" in shown
    assert "INVARIANT" not in shown
    assert rest.count("INVARIANT") >= 49


def test_upstream_form(repack_record: Record) -> None:
    text = block(repack_record, upstream=True)
    heads = [line.removeprefix("### ") for line in text.splitlines() if line.startswith("### ")]
    assert heads == [
        "Name and Version", "Operating systems", "GGML backends", "Hardware", "Models",
        "Problem description & steps to reproduce", "First Bad Commit", "Relevant log output",
    ]  # fmt: skip
    for blank in ("llama-cli --version", "Models", "Problem description", "First Bad Commit"):
        assert f"\n{blank}: ____\n" in text
    assert "### GGML backends\n\nCPU\n" in text
    assert "\n| control " in text


def test_hostile_text_stays_text(repack_record: Record) -> None:
    evil = "</details>\n```\n# owned <img src=x onerror=alert(1)> caf\u00e9"
    around = replace(repack_record.environment, cpu=evil, os=evil)
    device = replace(repack_record.configs[0].device, description=evil, features={evil: evil})
    row = replace(repack_record.results[1], seeds=[], verdict="CRASH", detail=evil,
                  stderr_tail=[evil] * 3)  # fmt: skip
    hostile = replace(
        repack_record, environment=around, command=f"ggmlprobe op `{evil}`",
        configs=[replace(repack_record.configs[0], device=device)],
        results=[*repack_record.results, row],
    )  # fmt: skip
    for upstream in (False, True):
        text = block(hostile, upstream)
        assert text.isascii()
        # only whole lines are the block's own tags and fences
        assert text.splitlines().count("</details>") == 1
        assert not [line for line in text.splitlines() if line.startswith("# ")]
        outside = text.partition("````text")[0]
        tags = [line for line in outside.splitlines() if "<img" in line.replace(r"\<img", "")]
        assert all("```` " in line for line in tags), "only inside code"


def test_fence_is_longer_than_any_inside() -> None:
    assert fenced("a ````` b").splitlines()[0] == "``````text"
    assert fenced("plain") == "```text\nplain\n```"


def test_model_records_are_as_their_command_prints_them() -> None:
    record = record_of(model_header(), [made(flips_at=(4,))], False)
    text = block(record)
    assert text.startswith(FORMATS["md"](record).rstrip())
    assert "First Bad Commit: ____" in text
    assert "model: m.gguf, tiny, fa off" in text


def test_each_command_has_its_own_table(
    repack_record: Record, result: Rows, record: Make, config: Config
) -> None:
    assert own.is_plain(repack_record)
    swept = replace(repack_record, command="ggmlprobe sweep mul_mat")
    assert own.renderer(swept) is matrix.table
    armed = record([result(1)], configs=[replace(config, arm="tiled")])
    assert own.renderer(armed) is arms.table
    assert "| control " in block(swept)
    assert not own.is_plain(swept)


def test_interrupted_before_the_first_row(record: Make) -> None:
    text = block(record([], interrupted=True))
    assert "interrupted, rows are missing" in text
    assert text.startswith("`ggmlprobe op")


@pytest.mark.parametrize(("cores", "said"), [(1, "Example CPU, 1 core"), (2, "2 cores")])
def test_a_single_core_is_one_core(result: Rows, record: Make, cores: int, said: str) -> None:
    made = record([result(1)])
    made = replace(made, environment=replace(made.environment, cores_available=cores))
    assert f"{said}, Example OS" in table(made)
    assert f"{said} (2 physical)" in block(made, False)
