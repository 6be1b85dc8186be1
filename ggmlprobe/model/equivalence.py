"""Ways of generating one text, in turns, each against plain greedy decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ggmlprobe.dispatch.price import against
from ggmlprobe.model.speculate import Drafter, Generation, Memory, Speculation, Step, audit
from ggmlprobe.model.speculated import Speculated, TokenDifference
from ggmlprobe.verdict import Verdict

PLAIN = "plain"
Piece = Callable[[int], bytes]
Begin = Callable[[str, int], None]
"""Called before an arm runs, with its name and the round."""


@dataclass(frozen=True)
class Arm:
    """A way of generating.

    Attributes:
        blank: config, prompt, arm, draft and recheck of the row to make.
        memory: of its context.
        drafter: makes it from the plain text's tokens; None for plain decoding.
        rounds: how many rounds it takes part in, the warm-up included.
    """

    blank: Speculated | None
    memory: Memory
    how: Speculation
    rounds: int
    drafter: Callable[[Sequence[int]], Drafter] | None = None

    @property
    def name(self) -> str:
        """For progress and blame."""
        return PLAIN if self.blank is None else self.blank.arm


def compare(
    plain: Arm, arms: Sequence[Arm], prompt: Sequence[int], piece: Piece,
    begin: Begin = lambda name, round: None,
) -> Iterator[Speculated]:  # fmt: skip
    """Generate in every way, in turns after a warm-up, and compare each with the plain one.

    Yields:
        A row per arm.
    """
    runs = take_turns([plain, *arms], prompt, begin)
    for arm, made in zip(arms, runs[1:], strict=True):
        begin(f"{arm.name} audit", 0)
        yield row_of(arm, plain, made, runs[0], piece)


def take_turns(
    arms: Sequence[Arm], prompt: Sequence[int], begin: Begin
) -> list[list[Generation]]:  # fmt: skip
    """Generations of each arm; the first arm is the plain one, and the first round the warm-up."""
    made: list[list[Generation]] = [[] for _ in arms]
    drafters: list[Drafter | None] = [None] * len(arms)
    for turn in range(max(arm.rounds for arm in arms)):
        # another arm begins each round, so that none always follows the same
        order = list(range(len(arms)))[turn % len(arms) :] + list(range(turn % len(arms)))
        for i in order:
            if turn >= arms[i].rounds:
                continue
            begin(arms[i].name, turn)
            make = arms[i].drafter
            if make is not None and drafters[i] is None:
                drafters[i] = make(made[0][0].tokens)
            made[i].append(arms[i].how.run(arms[i].memory, drafters[i], prompt))
    return made


def row_of(
    arm: Arm, plain: Arm, made: Sequence[Generation], plains: Sequence[Generation], piece: Piece
) -> Speculated:
    """The row of an arm."""
    assert arm.blank is not None
    first, base = made[0], plains[0]
    text, plain_text = joined(first, piece), joined(base, piece)
    row = replace(
        arm.blank, prompt_tokens=len(first.prompt), tokens=len(first.tokens),
        blocks=len(first.blocks), drafts=first.drafts, drafted=first.drafted,
        accepted=first.accepted, mean_length=mean_length(first.drafts, first.accepted),
        rechecked=first.rechecked, changed=first.changed,
        text=shown(text), plain_text=shown(plain_text), **times(made, plains),
    )  # fmt: skip
    if first.nan or base.nan:
        return replace(row, verdict=Verdict.NAN, detail="a row of logits has a NaN")
    for name, runs in ((arm.name, made), (PLAIN, plains)):
        if any(run.tokens != runs[0].tokens for run in runs):
            why = f"{name}: the same run gave another text"
            return replace(row, verdict=Verdict.NONDETERMINISTIC, detail=why)
    if text == plain_text:
        return replace(row, verdict=Verdict.INVARIANT)
    return differing(row, arm, plain, first, base, piece)


def differing(
    row: Speculated, arm: Arm, plain: Arm, made: Generation, base: Generation, piece: Piece
) -> Speculated:
    """The row of an arm whose text is another: which token, and whether the target says so."""
    place = common(made.tokens, base.tokens)
    broken, ours = until(arm.memory, made, place)
    unsteady, theirs = until(plain.memory, base, place)
    found = difference(place, made, base, piece, ours, theirs)
    found = replace(found, own=broken is None)
    row = replace(row, difference=found, verdict=Verdict.MISMATCH)
    if unsteady is not None:
        why = "plain: evaluated again, it gave another token"
        return replace(row, verdict=Verdict.NONDETERMINISTIC, detail=why)
    if broken is None:
        return row
    took, top = (f"{t}({shown(piece(t))!a})" for t in (broken.token, broken.row.top))
    why = (
        f"broken verifier: token {broken.position} is {took}, but the target's own argmax {top}, "
        f"margin {broken.row.margin:.3g}"
    )
    return replace(row, verdict=Verdict.WRONG, detail=why)


def until(memory: Memory, made: Generation, place: int) -> tuple[Step | None, Step]:
    """Audit up to a token, or to the last one: (first step that is not the target's own, last)."""
    last = min(place, len(made.tokens) - 1)
    broken = None
    for step in audit(memory, made):
        if not step.own and broken is None:
            broken = step
        if step.position == last:
            return broken, step
    raise ValueError(f"a generation of {len(made.tokens)} tokens has none at {place}")


def difference(
    place: int, made: Generation, base: Generation, piece: Piece, ours: Step, theirs: Step
) -> TokenDifference:
    """What both evaluations say of the first token that differs."""
    token = made.tokens[place] if place < len(made.tokens) else None
    other = base.tokens[place] if place < len(base.tokens) else None
    both = [each for each in (other, token) if each is not None]
    width, offset = where(made, place)
    before = b"".join(map(piece, base.tokens[:place]))
    apart = [piece(each) if each is not None else b"" for each in (other, token)]
    return TokenDifference(
        place, len(before) + common(*apart), other, shown(apart[0]), token,
        shown(apart[1]), [theirs.row[each] for each in both], [ours.row[each] for each in both],
        theirs.row.margin, ours.row.margin, width, offset,
    )  # fmt: skip


def where(made: Generation, place: int) -> tuple[int | None, int | None]:
    """(width, row) of the block that a token was taken from."""
    position = 0
    for block in made.blocks:
        if place < position + block.taken:
            return len(block.inputs), place - position
        position += block.taken
    return None, None


def common(ours: Sequence[int], theirs: Sequence[int]) -> int:
    """How many tokens two texts begin with alike."""
    pairs = zip(ours, theirs, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))


def joined(made: Generation, piece: Piece) -> bytes:
    """Bytes of a text."""
    return b"".join(map(piece, made.tokens))


def shown(text: bytes) -> str:
    """Bytes as text, those that are no UTF-8 escaped."""
    return text.decode("utf-8", "backslashreplace")


def mean_length(drafts: int | None, accepted: int | None) -> float | None:
    """Tokens that a verified draft gives, the target's own included."""
    return 1.0 + accepted / drafts if drafts and accepted is not None else None


def times(made: Sequence[Generation], plains: Sequence[Generation]) -> dict[str, Any]:
    """Time fields of a row, from the rounds after the warm-up; none of an arm that is not timed."""
    ours, theirs = (
        [run.seconds / len(run.tokens) for run in runs[1:]] for runs in (made, plains)
    )  # fmt: skip
    if len(ours) != len(theirs) or not ours:
        return {}
    return {"token_seconds": ours, "plain_token_seconds": theirs} | ratio_fields(ours, theirs)


def ratio_fields(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float | None]:
    """The ratio of times that were taken side by side; an interval where there are several."""
    if len(ours) > 1:
        made = against(ours, theirs)
        return {"ratio": made.ratio, "ratio_low": made.low, "ratio_high": made.high}
    return {"ratio": ours[0] / theirs[0]} if ours else {}
