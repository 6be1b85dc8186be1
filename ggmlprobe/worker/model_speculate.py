"""The child's task `speculate`: one prompt, every way of generating asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ggmlprobe.codec import from_dict, to_dict
from ggmlprobe.errors import UsageError
from ggmlprobe.ggml.llama.model import Model
from ggmlprobe.model.drafters import DraftModel, Ngram, Wrong
from ggmlprobe.model.equivalence import Arm, compare
from ggmlprobe.model.logits import Row
from ggmlprobe.model.speculate import Doubt, Drafter, Memory, Speculation, Verify, accept
from ggmlprobe.model.speculated import Speculated
from ggmlprobe.worker.model_child import ModelSession
from ggmlprobe.worker.model_compare import open_context
from ggmlprobe.worker.protocol import model_spec

# Vocabularies of one family may differ in tokens that were added at the end; upstream's limit.
ADDED_TOKENS = 128
# The control is run once more, to see whether it repeats; its time says nothing.
CONTROL_ROUNDS = 2


def wrong_once(draft: Sequence[int], rows: Sequence[Row], doubt: Doubt) -> tuple[list[int], bool]:
    """A planted broken verifier: it takes a draft's first token unseen wherever it is wrong."""
    taken, doubtful = accept(draft, rows, doubt)
    if taken and draft and taken[0] != draft[0]:
        return [draft[0]], False
    return taken, doubtful


VERIFIERS: dict[str | None, Verify] = {None: accept, "verifier": wrong_once}
"""Name of a planted fault to the rule of acceptance."""


def speculate(session: ModelSession, args: dict[str, Any]) -> None:
    """Run one prompt: a `speculated` event for each arm.

    Args:
        session: of the child.
        args: `blanks` (fields of the rows to make), `text` of the prompt, `context` (settings of
            ModelContext), `draft` (a ModelSpec, or None), `rounds`, `ignore_eos`, `fault`.

    Raises:
        Unsupported: no context with these settings, or a template the library does not know.
        UsageError: the draft has another vocabulary.
    """
    blanks = [from_dict(Speculated, blank) for blank in args["blanks"]]
    bench = Bench(session, args, blanks)

    def begin(name: str, turn: int) -> None:
        session.say("begin", phase=name, seed=None, width=None, round=turn)

    made = compare(bench.plain(), bench.arms(), bench.prompt, bench.model.piece, begin)
    for row in made:
        session.say("speculated", data=to_dict(row))


@dataclass
class Bench:
    """The contexts of a prompt's arms.

    Plain and speculative arms share one context, and so every parameter of it.
    """

    session: ModelSession
    args: dict[str, Any]
    blanks: list[Speculated]

    def __post_init__(self) -> None:
        """Load the target and open the shared context."""
        blank, model = self.blanks[0], self.session.model()
        text = model.chat(self.args["text"]) if blank.chat else self.args["text"]
        self.model, self.prompt = model, model.tokenize(text)
        self.room = len(self.prompt) + blank.n + blank.n_max
        state = model.is_recurrent or model.is_hybrid
        self.shared = self._memory(model, n_rs_seq=blank.n_max if state else 0)

    def _memory(self, model: Model, **more: Any) -> Memory:
        settings = self.args["context"] | more
        context = open_context(self.session, model, self.room, settings)
        rollback = not (model.is_recurrent or model.is_hybrid or model.swa)
        return Memory(context, rollback)

    def _how(self, blank: Speculated, n_max: int) -> Speculation:
        ends = (lambda token: False) if self.args["ignore_eos"] else self.model.is_eog
        verify = VERIFIERS[self.args.get("fault")]
        return Speculation(blank.n, n_max, ends, blank.recheck, verify)

    def plain(self) -> Arm:
        """Plain decoding in the shared context."""
        how = replace(self._how(self.blanks[0], 0), recheck=0.0)
        return Arm(None, self.shared, how, self.args["rounds"])

    def arms(self) -> list[Arm]:
        """The arms, in the order of their rows."""
        return [self._arm(blank) for blank in self.blanks]

    def _arm(self, blank: Speculated) -> Arm:
        rounds = self.args["rounds"]
        if blank.arm == "user":
            return Arm(blank, self._memory(self.model), self._how(blank, 0), rounds)
        rounds = CONTROL_ROUNDS if blank.arm == "wrong" else rounds
        drafter = self._drafter(blank)
        return Arm(blank, self.shared, self._how(blank, blank.n_max), rounds, drafter)

    def _drafter(self, blank: Speculated) -> Callable[[Sequence[int]], Drafter]:
        if blank.arm == "wrong":
            return partial(Wrong, n_vocab=self.model.n_vocab)
        if blank.arm == "ngram":
            return lambda text: Ngram()
        made = self._draft_model()
        return lambda text: made

    def _draft_model(self) -> DraftModel:
        """The second model, with its context: one for all arms that use it."""
        if not hasattr(self, "_second"):
            other = self.session.model(model_spec(self.args["draft"]))
            check_vocabulary(self.model, other)
            memory = self._memory(other)
            self._second = DraftModel(memory.decoder, self.model.is_eog, self.model.n_vocab)
        return self._second


def check_vocabulary(target: Model, draft: Model) -> None:
    """Refuse a draft whose tokens are not the target's.

    Raises:
        UsageError: another vocabulary.
    """
    both = min(target.n_vocab, draft.n_vocab)
    apart = abs(target.n_vocab - draft.n_vocab) > ADDED_TOKENS
    if apart or any(target.piece(token) != draft.piece(token) for token in range(both)):
        raise UsageError(
            f"--draft {draft.path} has another vocabulary: give a smaller model of the same family"
        )
