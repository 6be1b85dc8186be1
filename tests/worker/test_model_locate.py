"""Locating on a real model: planted perturbations, and what replaying a culprit says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.llama.context import ModelContext
from ggmlprobe.ggml.llama.model import Model
from ggmlprobe.model.located import Location
from ggmlprobe.pool import PoolStore
from ggmlprobe.verdict import Verdict
from ggmlprobe.worker.model_child import ModelSession
from ggmlprobe.worker.model_locate import locate_in
from ggmlprobe.worker.protocol import ModelSpec

WIDTH = 4
BLANK = Location("c0", WIDTH, 0, False, 0, [], Verdict.INVARIANT)
# one thread and flash attention: most builds have no difference of their own here
SETTINGS = {"threads": 1, "threads_batch": 1, "fa": "on"}
Locate = Callable[..., Location]


@pytest.fixture(scope="module")
def session(library: Library, llama_h: Path, smollm2: Path) -> Iterator[ModelSession]:
    """Return a session in this process, with SmolLM2."""
    child: Any = SimpleNamespace(
        library=library, pools=PoolStore(library, None, 1), say=lambda *args, **fields: None
    )
    made = ModelSession(child)
    made.spec = ModelSpec(str(smollm2), str(llama_h), extra_bufts=False)
    yield made
    made.end()
    for model in made.models.values():
        model.close()


@pytest.fixture(scope="module")
def model(session: ModelSession) -> Model:
    """Return SmolLM2."""
    return session.model()


@pytest.fixture
def locate(session: ModelSession, model: Model) -> Iterator[Locate]:
    """Return a function that locates in a short prompt."""

    def run(tamper: Any = None, **settings: Any) -> Location:
        prompt = model.tokenize("One two three four")
        return locate_in(session, model, prompt, BLANK, SETTINGS | settings, tamper)[1]

    yield run
    session.end()


@pytest.fixture(scope="module")
def clean(session: ModelSession, model: Model) -> None:
    """Skip where the library has differences of its own."""
    prompt = model.tokenize("One two three four")
    _, found = locate_in(session, model, prompt, BLANK, SETTINGS)
    session.end()
    if found.found:
        pytest.skip(f"this library differs by itself at {found.found[0].name}")


def perturb(library: Library, name: str, token: int, op: str) -> Callable[[Any, bool], bool]:
    """A fault: all signs of one token of a node, in the block alone."""

    def tamper(node: Any, ask: bool) -> bool:
        hit = (node.name, node.op_desc) == (name, op) and node.ne[1] == WIDTH
        if hit and not ask:
            data = node.get()
            data[token * node.nb[1] + 3 : (token + 1) * node.nb[1] : 4] ^= 128
            source = library.ffi.from_buffer(data)
            library.c.ggml_backend_tensor_set(node.ptr, source, 0, data.nbytes)
        return hit

    return tamper


@pytest.mark.parametrize(
    ("name", "op", "layer", "token"),
    [("ffn_out-17", "MUL_MAT", 17, 2), ("attn_norm-3", "MUL", 3, 0),
     ("ffn_swiglu-29", "SWIGLU", 29, 3), ("Vcur-8", "MUL_MAT", 8, 1)],
)  # fmt: skip
def test_a_planted_perturbation_is_located(
    clean: None, locate: Locate, library: Library, name: str, op: str, layer: int, token: int
) -> None:
    found = locate(perturb(library, name, token, op))
    assert (found.unchanged_single, found.unchanged_block) == (True, True)
    first = found.found[0]
    assert (first.name, first.op, first.layer) == (name, op, layer)
    assert first.tokens_differing == first.culprit_tokens == [token]
    assert [node.name for node in found.found if node.culprit_tokens] == [name]
    assert found.way[0] == name
    assert found.way[-1] == "result_output"
    # later tokens attend to this one in the layers behind
    assert found.logits_differing == list(range(token, WIDTH if layer < 29 else token + 1))


def test_what_was_not_computed_so_does_not_reproduce(
    clean: None, locate: Locate, library: Library
) -> None:
    found = locate(perturb(library, "ffn_out-17", 2, "MUL_MAT"))
    (replay,) = found.replays
    assert replay.reproduces is False
    assert replay.exact is False
    assert replay.cause is not None
    assert replay.cause.startswith("graph")


def test_two_culprits_in_different_tokens(clean: None, locate: Locate, library: Library) -> None:
    faults = [perturb(library, "ffn_out-4", 3, "MUL_MAT"), perturb(library, "l_out-9", 0, "ADD")]
    found = locate(lambda node, ask: any(fault(node, ask) for fault in faults))
    culprits = [(n.name, n.culprit_tokens) for n in found.found if n.culprit_tokens]
    assert culprits == [("ffn_out-4", [3]), ("l_out-9", [0])]


def test_where_watching_changes_bits_it_is_bisected_for(
    clean: None, locate: Locate, library: Library
) -> None:
    planted = perturb(library, "ffn_out-17", 2, "MUL_MAT")

    def fused(node: Any, ask: bool) -> bool:
        # computed on its own, this node gives other bits; a callback that does not stop there
        # never sees it
        if not ask and node.name == "ffn_norm-20" and node.ne[1] == WIDTH:
            data = node.get()
            data[3] ^= 128
            source = library.ffi.from_buffer(data)
            library.c.ggml_backend_tensor_set(node.ptr, source, 0, data.nbytes)
        return planted(node, ask)

    found = locate(fused)
    assert (found.unchanged_single, found.unchanged_block) == (True, False)
    assert found.watched == "one node per run"
    assert [(n.name, n.tokens_differing) for n in found.found] == [("ffn_out-17", [2])]


def test_culprits_of_the_library_reproduce_bit_for_bit(locate: Locate) -> None:
    found = locate(fa="off")
    if not found.found:
        pytest.skip("this library has no difference here")
    assert found.replays
    for replay in found.replays:
        assert replay.exact
        assert replay.reproduces
        (node,) = [each for each in found.found if each.node == replay.node]
        assert replay.columns_differing == node.tokens_differing


def test_logits_are_those_of_an_unwatched_run(
    session: ModelSession, model: Model, locate: Locate
) -> None:
    found = locate(fa="off")
    prompt = model.tokenize("One two three four")
    context = session.context(model, n_ctx=64, **SETTINGS | {"fa": "off"})
    context.decode(prompt[:-1], 0, "none")
    block = context.decode(found.tokens, len(prompt) - 1, "all")
    context.rollback(len(prompt) - 1)
    single = np.concatenate(
        [context.decode([t], len(prompt) - 1 + j) for j, t in enumerate(found.tokens)]
    )
    differing = [t for t in range(WIDTH) if block[t].tobytes() != single[t].tobytes()]
    assert found.logits_differing == differing


def test_memory_that_cannot_go_back_is_restored(
    locate: Locate, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = locate(fa="off")
    monkeypatch.setattr(ModelContext, "rollback", lambda self, pos: False)
    after = locate(fa="off")
    assert (after.unchanged_single, after.unchanged_block) == (True, True)
    assert after.logits_differing == before.logits_differing
    # cells that a token does not see differ then: products with the cache are left out
    assert after.nodes_compared < before.nodes_compared
    assert {node.name for node in after.found} <= {node.name for node in before.found}


def test_what_carries_a_difference_on_is_no_culprit(
    locate: Locate, library: Library, clean: None
) -> None:
    found = locate(perturb(library, "ffn_norm-11", 1, "MUL"))
    carried = next(node for node in found.found if node.name == "ffn_gate-11")
    assert carried.tokens_differing == [1]
    assert carried.culprit_tokens == []
    assert carried.reaches_logits
