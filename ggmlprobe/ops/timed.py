"""Many evaluations of one width in one graph, so that launching the graph hardly counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ggmlprobe.ggml.tensor import Context, Tensor

if TYPE_CHECKING:
    from ggmlprobe.ops.base import Session

# the largest evaluation, attention without flash attention, has 17 tensors with its views
TENSORS_PER_EVALUATION = 24

Build = Callable[[Context, int], tuple[dict[str, Tensor], list[Tensor]]]


class TimedGraph:
    """`copies` evaluations of `count` tokens, none of which depends on another.

    Each has inputs and outputs of its own: a backend may keep what it made of an input where the
    next node has the same one (Vulkan does).

    Args:
        build: (context, number of the evaluation) to (inputs by name, nodes).
        inputs: number of the evaluation to the data of its inputs.
    """

    def __init__(
        self,
        session: Session,
        count: int,
        copies: int,
        build: Build,
        inputs: Callable[[int], Mapping[str, np.ndarray]],
    ) -> None:
        self.session, self.count, self.copies = session, count, copies
        self.context = Context(session.library, TENSORS_PER_EVALUATION * copies)
        try:
            made = [build(self.context, i) for i in range(copies)]
            self.placed = session.backend.place(self.context, made)
            for i, (tensors, _) in enumerate(made):
                for name, array in inputs(i).items():
                    tensors[name].set(array)
            self.outs = [nodes[-1] for _, nodes in made]
        except BaseException:
            self.context.close()
            raise

    def run(self) -> float:
        """Compute all of them; seconds inside ggml's own function."""
        before = self.session.backend.compute_seconds
        self.session.compute(self.placed, self.count)
        return self.session.backend.compute_seconds - before

    def close(self) -> None:
        """Free inputs and outputs."""
        self.context.close()
