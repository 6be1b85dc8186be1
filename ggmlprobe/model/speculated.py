"""What `model speculate` adds to a record: fields of `ggmlprobe.record`, defined once."""

from __future__ import annotations

from dataclasses import dataclass, field

from ggmlprobe.verdict import Verdict


@dataclass(frozen=True)
class TokenDifference:
    """The first token in which a text is not the plain one, and what both evaluations say of it."""

    position: int = field(metadata={"doc": "Which generated token; -1 where only bytes are known."})
    byte: int = field(metadata={"doc": "First byte of the text that differs."})
    plain_token: int | None = field(
        default=None, metadata={"doc": "Token of the plain text; null where it ended before."}
    )
    plain_piece: str = field(
        default="", metadata={"doc": "Its text; bytes that are no UTF-8 escaped."}
    )
    token: int | None = field(default=None, metadata={"doc": "Token of this arm's text."})
    piece: str = field(default="", metadata={"doc": "Its text."})
    plain_logits: list[float | None] = field(
        default_factory=list,
        metadata={
            "doc": "Logits of the plain token and of this arm's, in the plain evaluation; of a "
            "program, log-probabilities evaluated anew."
        },
    )
    logits: list[float | None] = field(
        default_factory=list,
        metadata={"doc": "Logits of the plain token and of this arm's, in this arm's evaluation."},
    )
    plain_margin: float | None = field(
        default=None, metadata={"doc": "Largest logit minus the second, plain evaluation."}
    )
    margin: float | None = field(
        default=None, metadata={"doc": "Largest logit minus the second, this arm's evaluation."}
    )
    width: int | None = field(
        default=None, metadata={"doc": "Tokens of the block that this arm evaluated."}
    )
    offset: int | None = field(default=None, metadata={"doc": "Row of that block."})
    own: bool | None = field(
        default=None,
        metadata={
            "doc": "Going the same way again, every token up to this one is the argmax of the "
            "target's own row; false is a broken verifier."
        },
    )


@dataclass(frozen=True)
class Speculated:
    """One prompt generated in one way, against plain greedy decoding in the same context."""

    config: str = field(metadata={"doc": "Id of the config."})
    prompt: str = field(metadata={"doc": "Name of the prompt."})
    kind: str = field(metadata={"doc": "Its kind: prose, code, edit, reasoning, given."})
    prompt_hash: str = field(metadata={"doc": "BLAKE2b-64 of its text as given, hexadecimal."})
    chat: bool = field(metadata={"doc": "It was put into the model's chat template."})
    n: int = field(metadata={"doc": "Most tokens to generate.", "minimum": 1})
    n_max: int = field(metadata={"doc": "Most tokens of a draft.", "minimum": 1})
    arm: str = field(
        metadata={
            "doc": "draft: a second model drafts; ngram: the text's own repetitions do; wrong: a "
            "draft with a wrong token at every place in turn, the control; user: plain decoding "
            "in the context of a user who does not speculate.",
            "enum": ["draft", "ngram", "wrong", "user"],
        }
    )
    verdict: str = field(
        metadata={
            "doc": "INVARIANT: the same bytes; MISMATCH: others, by the target's own numbers; "
            "WRONG: others, and not by the target's numbers, so the verifier is broken; else as "
            "in verdicts.",
            "enum": [str(verdict) for verdict in Verdict],
        }
    )
    draft: str | None = field(default=None, metadata={"doc": "The draft model's file."})
    recheck: float = field(
        default=0.0,
        metadata={"doc": "Top-2 margin under which a verified token is evaluated again alone."},
    )
    detail: str | None = field(
        default=None, metadata={"doc": "What is to be known of the verdict, in one line."}
    )
    difference: TokenDifference | None = field(
        default=None, metadata={"doc": "The first token that differs."}
    )
    prompt_tokens: int = field(default=0, metadata={"doc": "Tokens of the prompt."})
    tokens: int = field(default=0, metadata={"doc": "Tokens generated."})
    blocks: int = field(default=0, metadata={"doc": "Evaluations of the target."})
    drafts: int | None = field(default=0, metadata={"doc": "Drafts; null where it is not told."})
    drafted: int | None = field(default=0, metadata={"doc": "Tokens of drafts."})
    accepted: int | None = field(default=0, metadata={"doc": "Of those, accepted."})
    mean_length: float | None = field(
        default=None,
        metadata={
            "doc": "1 + accepted / drafts: mean accepted length as upstream counts it; of a "
            "program, tokens per evaluation."
        },
    )
    rechecked: int = field(default=0, metadata={"doc": "Tokens evaluated again alone."})
    changed: int = field(default=0, metadata={"doc": "Of those, with another argmax."})
    token_seconds: list[float] = field(
        default_factory=list,
        metadata={"doc": "Seconds per token, prompt excluded, one a round of all arms in turn."},
    )
    plain_token_seconds: list[float] = field(
        default_factory=list, metadata={"doc": "The same of plain decoding, in the same rounds."}
    )
    ratio: float | None = field(
        default=None, metadata={"doc": "Time per token over the plain one's, median of rounds."}
    )
    ratio_low: float | None = field(default=None, metadata={"doc": "Its 95 % interval."})
    ratio_high: float | None = field(default=None, metadata={"doc": "Its 95 % interval."})
    text: str = field(default="", metadata={"doc": "The text, bytes that are no UTF-8 escaped."})
    plain_text: str = field(default="", metadata={"doc": "The plain text."})
    signal: str | None = field(
        default=None, metadata={"doc": "Signal that ended the child process: SIGABRT, SIGILL, ..."}
    )
    stderr_tail: list[str] = field(
        default_factory=list, metadata={"doc": "Last lines the child wrote to stderr."}
    )

    @property
    def key(self) -> tuple[object, ...]:
        """What makes a row the same row."""
        prompt = (self.prompt, self.prompt_hash, self.chat, self.n, self.n_max)
        return (self.config, *prompt, self.arm, self.draft, self.recheck)


@dataclass(frozen=True)
class SpeculationTotal:
    """All prompts of one config, arm and recheck margin together."""

    config: str = field(metadata={"doc": "Id of the config."})
    arm: str = field(metadata={"doc": "As in the rows."})
    recheck: float = field(metadata={"doc": "As in the rows."})
    prompts: int = field(metadata={"doc": "Prompts that ran."})
    equal: int = field(metadata={"doc": "Of those, with the plain text's bytes."})
    equal_rate: float | None = field(metadata={"doc": "Their share."})
    equal_low: float | None = field(metadata={"doc": "Its interval (Clopper-Pearson)."})
    equal_high: float | None = field(metadata={"doc": "Its interval."})
    tokens: int = field(metadata={"doc": "Tokens generated."})
    drafted: int | None = field(metadata={"doc": "Tokens of drafts."})
    accepted: int | None = field(metadata={"doc": "Of those, accepted."})
    mean_length: float | None = field(metadata={"doc": "1 + accepted / drafts."})
    rechecked: int = field(metadata={"doc": "Tokens evaluated again alone."})
    ratio: float | None = field(
        metadata={"doc": "Time per token over the plain one's, geometric mean of the prompts."}
    )
    ratio_low: float | None = field(metadata={"doc": "Its 95 % interval, of these prompts."})
    ratio_high: float | None = field(metadata={"doc": "Its 95 % interval."})


SPECULATE_DATACLASSES: tuple[type, ...] = (Speculated, TokenDifference, SpeculationTotal)
"""In the order of docs/record.md."""
