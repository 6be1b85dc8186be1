"""Texts of upstream's own programs, with and without speculation, as rows of a record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ggmlprobe.errors import ComputeFailed
from ggmlprobe.model.equivalence import common, ratio_fields
from ggmlprobe.model.prompts import Prompt
from ggmlprobe.model.speculated import Speculated, TokenDifference
from ggmlprobe.record import Config
from ggmlprobe.verdict import Verdict
from ggmlprobe.worker.protocol import Event
from ggmlprobe.worker.upstream import Output, Program, ProgramDied, Server

SHOWN = 24
Start = Callable[[Config, bool], Program]
"""Starts a program in a config: with speculation or without."""
Step = Callable[[Config, Prompt, Event], None]


@dataclass
class Programs:
    """Generates with a pair of programs, which take turns.

    Attributes:
        start: makes one of the pair. repeats: timed rounds, after one that warms up.
        step: called with config, prompt and event as they go by.
    """

    start: Start
    repeats: int
    ignore_eos: bool = False
    step: Step = lambda config, prompt, event: None
    _pair: tuple[Program, Program] | None = None
    _config: str | None = field(default=None)

    def generate(
        self, config: Config, prompt: Prompt, rows: list[Speculated]
    ) -> Iterator[Speculated]:  # fmt: skip
        """The row of a prompt; one that says why where a program died."""
        (blank,) = rows
        try:
            plain, other = self._programs(config)
            yield self._compare(config, prompt, blank, plain, other)
        except ProgramDied as error:
            self.close()
            yield replace(
                blank, verdict=error.verdict, detail=str(error), signal=error.signal,
                stderr_tail=error.stderr,
            )  # fmt: skip
        except ComputeFailed as error:
            yield replace(blank, verdict=Verdict.CRASH, detail=str(error))

    def _programs(self, config: Config) -> tuple[Program, Program]:
        if self._config != config.id:
            self.close()
        if self._pair is None:
            plain = self.start(config, False)
            try:
                self._pair, self._config = (plain, self.start(config, True)), config.id
            except BaseException:
                plain.close()
                raise
        return self._pair

    def _compare(
        self, config: Config, prompt: Prompt, blank: Speculated, plain: Program, other: Program
    ) -> Speculated:
        made: tuple[list[Output], list[Output]] = [], []
        for turn in range(self.repeats + 1):
            order = (0, 1) if turn % 2 == 0 else (1, 0)
            for i in order:
                phase = blank.arm if i else "plain"
                self.step(config, prompt, {"event": "begin", "phase": phase, "round": turn})
                program = (plain, other)[i]
                made[i].append(program.generate(prompt.text, blank.n, blank.chat, self.ignore_eos))
        return row_of(blank, prompt, made[1], made[0], plain)

    def close(self) -> None:
        """End both."""
        for program in self._pair or ():
            program.close()
        self._pair = None


def row_of(
    blank: Speculated, prompt: Prompt, made: Sequence[Output], plains: Sequence[Output],
    program: Program,
) -> Speculated:  # fmt: skip
    """The row of a prompt."""
    first, base = made[0], plains[0]
    # none tells how often it evaluated: each time gives one token besides the accepted ones
    blocks = first.count - first.accepted if first.accepted is not None else 0
    row = replace(
        blank, tokens=first.count, drafts=None, drafted=first.drafted, accepted=first.accepted,
        mean_length=first.count / blocks if first.drafted and blocks else None,
        blocks=blocks, text=first.text, plain_text=base.text, **times(made, plains),
    )  # fmt: skip
    for name, runs in ((blank.arm, made), ("plain", plains)):
        if any(run.text != runs[0].text for run in runs):
            why = f"{name}: the same prompt gave another text"
            return replace(row, verdict=Verdict.NONDETERMINISTIC, detail=why)
    if first.text == base.text:
        return replace(row, verdict=Verdict.INVARIANT)
    apart = difference(blank, prompt, first, base, program)
    return replace(row, verdict=Verdict.MISMATCH, difference=apart)


def times(made: Sequence[Output], plains: Sequence[Output]) -> dict[str, Any]:
    """Time fields of a row, from the rounds after the warm-up."""
    both = [
        (ours.token_seconds, theirs.token_seconds)
        for ours, theirs in zip(made[1:], plains[1:], strict=True)
    ]
    told = [(a, b) for a, b in both if a is not None and b is not None]
    if not told or len(told) < len(both):
        return {}
    ours, theirs = [a for a, _ in told], [b for _, b in told]
    found: dict[str, Any] = {"token_seconds": ours, "plain_token_seconds": theirs}
    return found | ratio_fields(ours, theirs)


def difference(
    blank: Speculated, prompt: Prompt, made: Output, base: Output, program: Program
) -> TokenDifference:
    """Where the texts part: by tokens of a server, else by bytes."""
    ours, theirs = made.text.encode(), base.text.encode()
    byte = common(theirs, ours)
    if not isinstance(program, Server) or made.tokens is None or base.tokens is None:
        rest = [text[byte : byte + SHOWN].decode("utf-8", "backslashreplace")
                for text in (theirs, ours)]  # fmt: skip
        return TokenDifference(-1, byte, None, rest[0], None, rest[1])
    place = common(made.tokens, base.tokens)
    pair = [tokens[place] if place < len(tokens) else None for tokens in (base.tokens, made.tokens)]
    pieces = [program.piece(token) if token is not None else "" for token in pair]
    likely = program.candidates(prompt.text, blank.chat, base.tokens[:place])
    top = sorted(likely.values(), reverse=True)
    return TokenDifference(
        place, byte, pair[0], pieces[0], pair[1], pieces[1],
        [likely.get(token) for token in pair if token is not None], [],
        top[0] - top[1] if len(top) > 1 else None,
    )  # fmt: skip
