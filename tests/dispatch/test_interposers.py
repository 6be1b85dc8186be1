"""The interposing libraries: each arm changes what it says and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

F32, F16, Q8_0, Q4_K, IQ1_M = 0, 1, 8, 12, 29
WIDTHS = range(1, 20)

Ask = Callable[..., Any]


@pytest.fixture
def ask(interposers: dict[str, Path], standins: dict[str, Path]) -> Ask:
    """Ask the stand-in questions in a fresh process with an arm."""

    def run(arm: str | None, *questions: tuple[str, Sequence[Any]], interposed: bool = True) -> Any:
        env = {name: value for name, value in os.environ.items() if name != "GGMLPROBE_ARM"}
        env |= {"GGMLPROBE_ARM": arm} if arm is not None else {}
        script = Path(__file__).with_name("standin.py")
        first = str(interposers["cuda"]) if interposed else "-"
        done = subprocess.run(
            [sys.executable, str(script), first, str(standins["stock"])],
            input=json.dumps(questions), capture_output=True, text=True, check=True, env=env,
        )  # fmt: skip
        return json.loads(done.stdout)

    return run


def paths(ask: Ask, arm: str | None, type_id: int, **more: Any) -> dict[int, str]:
    asked = [("mul_mat", (type_id, width)) for width in WIDTHS]
    return dict(zip(WIDTHS, ask(arm, *asked, **more), strict=True))


def split_at(last: int, before: str, after: str) -> dict[int, str]:
    return {width: before if width <= last else after for width in WIDTHS}


@pytest.mark.parametrize("type_id", [F32, Q4_K, IQ1_M])
def test_without_an_arm_or_with_another_every_answer_is_the_original_one(
    ask: Ask, type_id: int
) -> None:
    stock = paths(ask, None, type_id, interposed=False)
    assert len(set(stock.values())) > 1
    for arm in (None, "", "vec_dot", "tile", "mmid:2"):
        assert paths(ask, arm, type_id) == stock


def test_mmvq_serves_as_many_columns_as_the_source_asserts(ask: Ask) -> None:
    assert paths(ask, "mmvq", Q4_K) == split_at(8, "mmvq", "mmq")
    assert paths(ask, "mmvq", F32) == paths(ask, None, F32)


def test_mmq_serves_every_width_of_the_types_it_lists(ask: Ask) -> None:
    assert set(paths(ask, "mmq", Q4_K).values()) == {"mmq"}
    # a limit on the columns is tuning, a device without the instructions is not
    wide, old = ask("mmq", ("mul_mat", (Q4_K, 100)), ("mul_mat", (Q4_K, 2, 600)))
    assert (wide, old) == ("mmq", "cublas")
    assert set(paths(ask, "mmq", IQ1_M).values()) == {"cublas"}


def test_mmvf_and_mmf_keep_the_checks_of_the_original(ask: Ask) -> None:
    assert paths(ask, "mmvf", F16) == {
        width: "mmvf" if width <= 8 else "mmf" if width <= 12 else "cublas" for width in WIDTHS
    }
    assert paths(ask, "mmf", F16) == split_at(16, "mmf", "cublas")
    odd_k = ("mul_mat", (F16, 2, 900, 255))
    assert ask("mmvf", odd_k) == ask("mmf", odd_k) == ["cublas"]


@pytest.mark.parametrize("type_id", [F32, F16, Q4_K, IQ1_M])
def test_cublas_turns_everything_else_off(ask: Ask, type_id: int) -> None:
    assert set(paths(ask, "cublas", type_id).values()) == {"cublas"}
    assert ask("cublas", ("mul_mat_id", (Q4_K, 2))) == ["cublas"]


def test_mmid_lowers_the_limit_and_never_raises_it(ask: Ask) -> None:
    asked = [("mul_mat_id", (Q4_K, tokens)) for tokens in range(1, 9)]
    for arm, last in (("mmid", 0), ("mmid:0", 0), ("mmid:4", 4), ("mmid:8", 6), (None, 6)):
        assert ask(arm, *asked) == ["mmvq"] * last + ["mmq"] * (8 - last)


@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize("columns", range(1, 12))
@pytest.mark.parametrize("most", [1, 3, 4])
def test_split_covers_each_column_once_and_in_order(
    ask: Ask, most: int, columns: int, with_ids: bool
) -> None:
    [(out, said)] = ask(f"split:{most}", ("vec_q", (columns, with_ids)))
    assert out[::3] == [column + 1 for column in range(columns)]
    assert not any(out[1::3] + out[2::3]), "nothing between the columns"
    whole, rest = divmod(columns, most)
    assert said.split() == [str(most)] * whole + [str(rest)] * bool(rest)


def test_split_takes_every_width_to_mmvq(ask: Ask) -> None:
    assert set(paths(ask, "split:4", Q4_K).values()) == {"mmvq"}
    assert paths(ask, "split:4", F32) == paths(ask, None, F32)


def test_without_groups_or_with_tensors_of_another_layout_the_call_stays_whole(ask: Ask) -> None:
    for arm in (None, "mmvq", "split:0", "split"):
        [(_, said)] = ask(arm, ("vec_q", (9, False)))
        assert said == "9"
    answers = ask("split:4", ("grow_tensors", ()), ("vec_q", (9, False)))
    assert answers[1][1] == "9"


@pytest.mark.parametrize(
    ("arm", "head", "kv", "ran"),
    [
        ("tile", 128, F16, "tile"),
        ("tile", 128, Q8_0, "own"),
        ("mma:8,4", 128, F16, "mma<128,128,8,4>"),
        ("mma:8,4", 128, Q8_0, "own"),
        ("mma:8,4", 64, F16, "own"),
        ("mma:4,8", 128, F16, "own"),
        ("vec", 128, F16, "vec<128,1,1>"),
        ("vec", 128, Q8_0, "vec<128,8,8>"),
        ("vec", 64, F16, "own"),
        ("mmvq", 128, F16, "own"),
        (None, 128, F16, "own"),
    ],
)
def test_attention(ask: Ask, arm: str | None, head: int, kv: int, ran: str) -> None:
    assert ask(arm, ("attention", (head, kv)), ("attention", (head, kv))) == [ran, ran]


def test_attention_stays_with_the_original_where_tensors_have_another_layout(ask: Ask) -> None:
    assert ask("tile", ("grow_tensors", ()), ("attention", (128, F16)))[1] == "own"


def test_calls_are_counted(ask: Ask) -> None:
    counts = ask("mmvq", ("mul_mat", (Q4_K, 2)), ("mul_mat", (Q4_K, 9)), ("calls", ()))[2]
    by_name = {name.lstrip("_Z0123456789").split("9ggml")[0]: n for name, n in counts.items()}
    assert by_name["ggml_cuda_should_use_mmvq"] == 2
    # the first call ended with MMVQ, so only the second one asked for MMQ
    assert by_name["ggml_cuda_should_use_mmq"] == 1
    assert sum(counts.values()) == 2 + 1 + 2 + 2, "mmvf and mmf were asked twice each"
