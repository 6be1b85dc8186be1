"""Drafters: a model, the text's own repetitions, and one that is wrong on purpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ggmlprobe.model.decoder import Decoder, restart

LONGEST, SHORTEST = 4, 2


class Ngram:
    """Prompt lookup: what followed the last tokens where they were seen before.

    The longest match of 4 down to 2 tokens holds, and of equally long ones the latest.
    """

    def start(self, prompt: Sequence[int]) -> None:
        """Nothing to do."""

    def draft(self, tokens: Sequence[int], most: int) -> list[int]:
        """What followed; nothing where the text does not repeat itself."""
        text = list(tokens)
        for size in range(min(LONGEST, len(text) - 1), SHORTEST - 1, -1):
            tail = text[-size:]
            for at in range(len(text) - size - 1, -1, -1):
                if text[at : at + size] == tail:
                    return text[at + size : at + size + most]
        return []


class DraftModel:
    """Greedy decoding of a second, smaller model.

    Args:
        decoder: its context.
        ends: whether a token ends a text; nothing is drafted behind it.
        n_vocab: tokens that the target has; others are not drafted.
    """

    def __init__(self, decoder: Decoder, ends: Callable[[int], bool], n_vocab: int) -> None:
        self.decoder, self.ends, self.n_vocab = decoder, ends, n_vocab
        self._seen: list[int] = []

    def start(self, prompt: Sequence[int]) -> None:
        """Evaluate the prompt but for its last token."""
        restart(self.decoder, prompt[:-1])
        self._seen = list(prompt[:-1])

    def draft(self, tokens: Sequence[int], most: int) -> list[int]:
        """Go on greedily from these tokens."""
        self._catch_up(tokens[:-1])
        drafted: list[int] = []
        new = list(tokens[len(self._seen) :])
        while len(drafted) < most and not (drafted and self.ends(drafted[-1])):
            row = self.decoder.decode(new, len(self._seen), "last")[0]
            self._seen += new
            token = int(np.argmax(row))
            if token >= self.n_vocab:
                break
            drafted.append(token)
            new = [token]
        return drafted

    def _catch_up(self, tokens: Sequence[int]) -> None:
        """Forget what is not in the text; a memory that cannot begins anew."""
        pairs = zip(self._seen, tokens, strict=False)
        common = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        if common is None:
            common = min(len(self._seen), len(tokens))
        if common < len(self._seen):
            if self.decoder.rollback(common):
                del self._seen[common:]
            else:
                restart(self.decoder, list(tokens))
                self._seen = list(tokens)


class Wrong:
    """Drafts with a wrong token at every place in turn, so that all ways back are gone.

    The tokens before it are those of the plain text, so that they are accepted.

    Args:
        text: the plain generation's tokens. n_vocab: of the target.
    """

    def __init__(self, text: Sequence[int], n_vocab: int) -> None:
        self.text, self.n_vocab = list(text), n_vocab
        self._rounds = self._prompt = 0

    def start(self, prompt: Sequence[int]) -> None:
        """Begin with the first place."""
        self._rounds, self._prompt = 0, len(prompt)

    def draft(self, tokens: Sequence[int], most: int) -> list[int]:
        """The next tokens of the text, one of them and all behind it another token."""
        begin = len(tokens) - self._prompt
        coming = self.text[begin : begin + most]
        right = self._rounds % most
        self._rounds += 1
        return coming[:right] + [(token + 1) % self.n_vocab for token in coming[right:]]
