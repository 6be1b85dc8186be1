"""What all ops share: upstream's notation, memory as llama.cpp places it, nothing left behind."""

from __future__ import annotations

from typing import Any

import pytest

from ggmlprobe.errors import OutOfMemory, Unsupported
from ggmlprobe.ggml.tensor import Context
from ggmlprobe.ops import OPS
from ggmlprobe.ops.attn_nofa import AttnNofa
from ggmlprobe.ops.base import Session, case_text, nondefault, value_text
from ggmlprobe.ops.flash_attn import FlashAttn
from ggmlprobe.ops.mul_mat import MulMat
from ggmlprobe.ops.mul_mat_id import MulMatId

SMALL: dict[str, dict[str, Any]] = {
    "mul_mat": {"type_a": "q4_0", "m": 8, "k": 64},
    "mul_mat_id": {"type_a": "q4_0", "m": 8, "k": 64, "n_mats": 4, "n_used": 2},
    "flash_attn": {"hsk": 64, "hsv": 64, "nh": 1, "nr2": 2, "cells": 10},
    "attn_nofa": {"hsk": 64, "hsv": 64, "nh": 1, "nr2": 2, "cells": 10},
}


def small(name: str, **changes: Any) -> Any:
    return OPS[name](**(SMALL[name] | changes))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "1"), (False, "0"), (7, "7"), ("q4_K", "q4_K"), (0.0, "0.000000"),
        (8.0, "8.000000"), (0.088388347, "0.088388"), ((1, 2), "[1,2]"), ([0, True], "[0,1]"),
    ],
)  # fmt: skip
def test_values_are_printed_as_upstream_does(value: Any, text: str) -> None:
    assert value_text(value) == text


def test_a_case_leaves_out_what_is_none_only() -> None:
    assert case_text("OP", a=0, n=None, b=False, c="") == "OP(a=0,b=0,c=)"


def test_only_what_is_not_the_default_is_named() -> None:
    op = MulMat(prec="f32", m=1)
    assert nondefault(op, "prec", "activations") == {"prec": "f32"}


@pytest.mark.parametrize("name", SMALL)
def test_ops_by_name(name: str) -> None:
    kinds = {
        "mul_mat": MulMat, "mul_mat_id": MulMatId, "flash_attn": FlashAttn, "attn_nofa": AttnNofa,
    }  # fmt: skip
    op = small(name)
    assert type(op) is kinds[name]
    # rows of the table are told apart by the case
    assert op == small(name)
    assert hash(op) == hash(small(name))
    assert "n=" not in op.case().replace("in=", "").split("(")[1].split(",")


@pytest.mark.parametrize("name", ["mul_mat", "mul_mat_id"])
def test_weights_have_a_buffer_of_their_own_with_usage_weights(
    name: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str | None, str]] = []
    allocate = Context.allocate

    def noted(context: Context, backend: Any, buft: str | None = None, usage: str = "any") -> Any:
        seen.append((buft, usage))
        return allocate(context, backend, buft, usage)

    monkeypatch.setattr(Context, "allocate", noted)
    session.buft = "CPU"
    evaluator = small(name).prepare(session, 1, 2)
    evaluator.load(1)
    evaluator.evaluate(0, 2)
    # the weights in the buffer type that was named, everything else in the default
    assert seen[0] == ("CPU", "weights")
    assert set(seen[1:]) == {(None, "any")}
    assert evaluator.weights.tensor.name == "a"
    evaluator.close()


@pytest.mark.parametrize(
    ("name", "prec", "asked"),
    [
        ("mul_mat", "default", []), ("mul_mat", "f32", ["f32"]),
        ("flash_attn", "f32", ["f32"]), ("flash_attn", "default", []),
        # KQ only, as llama.cpp does
        ("attn_nofa", "f32", ["f32"]), ("attn_nofa", "default", ["default"]),
    ],
)  # fmt: skip
def test_the_precision_is_asked_for(
    name: str, prec: str, asked: list[str], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    set_prec = Context.set_prec

    def noted(context: Context, tensor: Any, kind: str) -> None:
        seen.append(kind)
        set_prec(context, tensor, kind)

    monkeypatch.setattr(Context, "set_prec", noted)
    small(name, prec=prec).prepare(session, 1, 1).close()
    assert seen == asked


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> list[Context]:
    """Return the contexts that are open."""
    there: list[Context] = []
    init, close = Context.__init__, Context.close

    def opened(self: Context, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        there.append(self)

    def closed(self: Context) -> None:
        close(self)
        if self in there:
            there.remove(self)

    monkeypatch.setattr(Context, "__init__", opened)
    monkeypatch.setattr(Context, "close", closed)
    return there


@pytest.mark.parametrize("name", SMALL)
def test_closing_frees_every_buffer(name: str, session: Session, contexts: list[Context]) -> None:
    evaluator = small(name).prepare(session, 1, 3)
    evaluator.load(1)
    for width in (1, 2, 3):
        evaluator.evaluate(0, width)
    # weights or caches, and a graph per width
    assert len(contexts) == 4
    evaluator.close()
    assert contexts == []


@pytest.mark.parametrize("name", SMALL)
def test_what_is_not_supported_leaves_nothing_behind(
    name: str, session: Session, contexts: list[Context], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session.backend, "supports", lambda node: False)
    with pytest.raises(Unsupported, match="CPU does not support this op with these parameters"):
        small(name).prepare(session, 1, 3)
    assert contexts == []


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("fails_at", [1, 2])
def test_what_does_not_fit_leaves_nothing_behind(
    name: str, fails_at: int, session: Session, contexts: list[Context],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    allocate, calls = Context.allocate, []

    def full(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == fails_at:
            raise OutOfMemory("full")
        return allocate(*args, **kwargs)

    monkeypatch.setattr(Context, "allocate", full)
    with pytest.raises(OutOfMemory):
        small(name).prepare(session, 1, 3)
    assert contexts == []
