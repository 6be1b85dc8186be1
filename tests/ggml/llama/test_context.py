"""Decoding, going back, saving, watching: none of it changes a bit that it should not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ggmlprobe.errors import ComputeFailed, HeaderRefused, UnknownType, UsageError
from ggmlprobe.ggml.llama.context import ModelContext
from ggmlprobe.ggml.llama.model import Model
from ggmlprobe.ggml.llama.node import Node

NewContext = Callable[..., ModelContext]
PROMPT = "Explain the Pythagorean theorem"


@pytest.fixture(params=["smol", "gemma"])
def model(request: pytest.FixtureRequest) -> Model:
    found: Model = request.getfixturevalue(request.param)
    return found


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()


def greedy(context: ModelContext, tokens: list[int], n: int) -> tuple[list[int], list[np.ndarray]]:
    """Prefill, then n tokens one by one; all tokens, and the logits each new one is chosen from."""
    tokens, rows = list(tokens), []
    context.clear()
    context.decode(tokens[:-1], 0, "none")
    for _ in range(n):
        rows.append(context.decode(tokens[-1:], len(tokens) - 1))
        tokens.append(int(rows[-1][0].argmax()))
    return tokens, rows


def test_it_writes_sense(smol: Model, context: NewContext) -> None:
    tokens, _ = greedy(context(smol), smol.tokenize(smol.chat("What is 2+2? Be brief.")), 12)
    assert b"4" in b"".join(map(smol.piece, tokens[-12:]))


def test_rows_and_positions(model: Model, context: NewContext) -> None:
    ctx = context(model)
    tokens = model.tokenize(PROMPT)
    assert (ctx.n_past, ctx.decodes, ctx.compute_seconds) == (0, 0, 0.0)
    every = ctx.decode(tokens, 0, "all")
    assert (every.dtype, every.shape) == (np.float32, (len(tokens), model.n_vocab))
    assert np.isfinite(every).all()
    assert ctx.n_past == len(tokens)
    assert ctx.compute_seconds > 0
    ctx.clear()
    assert ctx.n_past == 0
    last = ctx.decode(tokens, 0)
    assert last.shape == (1, model.n_vocab)
    ctx.clear()
    assert ctx.decode(tokens, 0, "none").shape == (0, model.n_vocab)
    # rows are in the tokens' order: the first one predicts what follows the first token alone
    ctx.clear()
    alone = ctx.decode(tokens[:1], 0)
    assert np.abs(every[0] - alone[0]).max() < np.abs(every[0] - every[1]).max() / 10


def test_a_run_repeats(model: Model, context: NewContext) -> None:
    ctx, other = context(model), context(model)
    tokens = model.tokenize(PROMPT)
    first, second, third = greedy(ctx, tokens, 6), greedy(ctx, tokens, 6), greedy(other, tokens, 6)
    for again in (second, third):
        assert again[0] == first[0]
        assert all(map(same, again[1], first[1]))


def test_rollback_is_as_if_it_had_not_been(model: Model, context: NewContext) -> None:
    ctx = context(model)
    tokens, rows = greedy(ctx, model.tokenize(PROMPT), 6)
    assert ctx.n_past == len(tokens) - 1
    assert ctx.rollback(ctx.n_past)
    for back in range(1, 7):
        start = len(tokens) - 1 - back
        # a block that is taken back, then the run's own steps
        assert ctx.rollback(start)
        assert ctx.n_past == start
        ctx.decode(tokens[start : start + back], start, "all")
        assert ctx.rollback(start)
        for j in range(back):
            assert same(
                ctx.decode(tokens[start + j : start + j + 1], start + j), rows[6 - back + j]
            )


def test_a_saved_state_goes_on_as_the_run_did(model: Model, context: NewContext) -> None:
    ctx, other = context(model), context(model)
    tokens = model.tokenize(PROMPT)
    ctx.decode(tokens[:-1], 0, "none")
    state = ctx.save()
    assert 1000 < len(state) < 10_000_000
    after = [ctx.decode(tokens[-1:], len(tokens) - 1), ctx.decode([5, 6, 7], len(tokens), "all")]
    for target in (ctx, other):
        target.restore(state)
        assert target.n_past == len(tokens) - 1
        assert target.save() == state
        assert same(target.decode(tokens[-1:], len(tokens) - 1), after[0])
        assert same(target.decode([5, 6, 7], len(tokens), "all"), after[1])


@pytest.mark.parametrize("cut", [0, 1, 7, 100])
def test_a_state_that_is_none(smol: Model, context: NewContext, cut: int) -> None:
    ctx = context(smol)
    ctx.decode([1, 2, 3], 0, "none")
    state = ctx.save()
    with pytest.raises(ComputeFailed, match="does not fit"):
        ctx.restore(state[:cut])
    ctx.restore(state)
    assert ctx.n_past == 3


def test_a_window_that_is_gone_cannot_be_rolled_back(gemma: Model, context: NewContext) -> None:
    settings = {"n_ctx": 1024, "n_batch": 256, "n_ubatch": 256}
    ctx = context(gemma, **settings)
    whole = context(gemma, **settings, swa_full=True)
    tokens = [7 + i % 100 for i in range(1024)]
    for each in (ctx, whole):
        for at in range(0, len(tokens), 256):
            each.decode(tokens[at : at + 256], at, "none")
    assert not ctx.rollback(520)
    assert ctx.n_past == len(tokens)
    assert whole.rollback(520)
    assert whole.n_past == 520
    assert ctx.rollback(len(tokens) - 1)
    assert ctx.n_past == len(tokens) - 1


def test_watching_changes_no_bit(model: Model, context: NewContext) -> None:
    seen: list[str] = []
    asked = 0

    def watch(node: Node, ask: bool) -> bool:
        nonlocal asked
        if ask:
            asked += 1
            return True
        assert node.get().nbytes == node.nbytes
        seen.append(node.name)
        return True

    tokens = model.tokenize(PROMPT)
    plain, watched = context(model), context(model, callback=watch)
    for width in (1, 4):
        rows = []
        for ctx in (plain, watched):
            ctx.clear()
            ctx.decode(tokens[:-1], 0, "none")
            seen.clear()
            rows.append(ctx.decode(tokens[-1:] + [9] * (width - 1), len(tokens) - 1, "all"))
        assert same(*rows)
        assert len(seen) > 10 * model.n_layer
        assert "result_output" in seen
    assert asked >= len(seen)


def test_what_a_node_says(smol: Model, context: NewContext) -> None:
    nodes: dict[str, dict[str, Any]] = {}

    def watch(node: Node, ask: bool) -> bool:
        if not ask:
            nodes[node.name] = {
                "op": node.op, "type": node.type, "ne": node.ne, "data": node.get(),
                "sources": [(s.name, s.op, s.type, s.ne, s.buffer) for s in node.sources],
                "buffer": node.buffer, "nb": node.nb, "params": node.op_params,
            }  # fmt: skip
        return True

    ctx = context(smol, callback=watch)
    row = ctx.decode([5], 0)[0]
    output = nodes["result_output"]
    assert (output["op"], output["type"]) == ("MUL_MAT", "f32")
    assert output["ne"] == (smol.n_vocab, 1, 1, 1)
    assert output["nb"][:2] == (4, 4 * smol.n_vocab)
    assert output["data"].view(np.float32).tobytes() == row.tobytes()
    weight, hidden = output["sources"]
    assert weight[:2] == ("token_embd.weight", "NONE")
    assert weight[3] == (hidden[3][0], smol.n_vocab, 1, 1)
    assert hidden[0] == "result_norm"
    assert "CPU" in output["buffer"]
    norm = nodes["norm"]
    # rms_norm's eps
    assert np.frombuffer(norm["params"], np.float32)[0] == pytest.approx(1e-5)
    assert {"ffn_out-0", "Qcur-29"} <= set(nodes)


def test_a_node_can_stop_the_graph_and_an_error_comes_out(smol: Model, context: NewContext) -> None:
    seen = 0

    def stop(node: Node, ask: bool) -> bool:
        nonlocal seen
        seen += not ask
        return ask

    def fail(node: Node, ask: bool) -> bool:
        raise LookupError(node.name)

    with pytest.raises(LookupError):
        context(smol, callback=fail).decode([1], 0)
    ctx = context(smol, callback=stop)
    for calls in (1, 2):
        ctx.clear()
        assert ctx.decode([1], 0).shape == (0, smol.n_vocab)
        assert seen == calls


@pytest.mark.parametrize(
    ("tokens", "at", "says"),
    [
        ([], 0, "1 to 256"),
        ([1] * 257, 0, "1 to 256"),
        ([1, 2], 255, "do not fit the context of 256"),
        ([1], 256, "do not fit"),
        ([1], -1, "do not fit"),
        ([-1], 0, "token -1"),
        ([1, 10**7], 0, "token 10000000"),
    ],
)
def test_what_would_abort_the_process(
    smol: Model, context: NewContext, tokens: list[int], at: int, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        context(smol).decode(tokens, at)


def test_settings_that_cannot_be(smol: Model, context: NewContext) -> None:
    with pytest.raises(UnknownType):
        context(smol, type_k="f17")
    with pytest.raises(UsageError, match="no context with these settings"):
        context(smol, type_v="q8_0", fa="off")


def test_a_position_that_is_left_out(smol: Model, context: NewContext) -> None:
    ctx = context(smol)
    ctx.decode([1, 2], 0, "none")
    with pytest.raises(ComputeFailed, match="at 5"):
        ctx.decode([3], 5)


@pytest.mark.parametrize(
    "settings", [{"fa": "on"}, {"fa": "auto"}, {"fa": "on", "type_k": "q8_0", "type_v": "q8_0"}]
)
def test_settings_that_change_the_logits_a_little(
    smol: Model, context: NewContext, settings: dict[str, str]
) -> None:
    tokens = smol.tokenize(PROMPT)
    plain = context(smol).decode(tokens, 0)[0]
    other = context(smol, **settings).decode(tokens, 0)[0]
    assert not same(plain, other)
    assert np.corrcoef(plain, other)[0, 1] > 0.99


def test_threads_are_those_asked_for(smol: Model, context: NewContext) -> None:
    ctx = context(smol, threads=1, threads_batch=2)
    c = smol.llama.c
    assert (c.llama_n_threads(ctx.ptr), c.llama_n_threads_batch(ctx.ptr)) == (1, 2)


def test_a_setting_that_is_not_taken(
    smol: Model, context: NewContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a header has two fields of the same default in each other's place."""
    monkeypatch.setattr(ModelContext, "_params", swapped_threads(ModelContext._params))
    with pytest.raises(HeaderRefused, match=r"n_threads 2, not 1 as set.*--llama-h"):
        context(smol, threads=1, threads_batch=2)


def swapped_threads(params: Callable[..., Any]) -> Callable[..., Any]:
    def made(self: ModelContext, *arguments: Any) -> Any:
        found = params(self, *arguments)
        found.n_threads, found.n_threads_batch = found.n_threads_batch, found.n_threads
        return found

    return made
