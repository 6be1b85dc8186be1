"""What every op file provides: parameters without the width, and an evaluator that runs tokens."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np

from ggmlprobe import compare
from ggmlprobe.ggml import blas
from ggmlprobe.ggml.computing import Computing, Placed
from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.tensor import Context, Tensor
from ggmlprobe.pool import PoolStore

if TYPE_CHECKING:
    from ggmlprobe.ops.timed import TimedGraph

Readback = Callable[[np.ndarray, int, int], np.ndarray]


def as_read(out: np.ndarray, first: int, count: int) -> np.ndarray:
    """The tensor read-back as it is: no planted fault."""
    return out


def as_planned(done: int, planned: int) -> bool:
    """Whether rounds are left."""
    return done < planned


@dataclass
class Session:
    """The device an op runs on, with the settings that are part of every result.

    Attributes:
        backend: an initialised device, or a scheduler over several.
        buft: name of the buffer type that holds the weights, None for the usual one.
        threads: threads of a width-1 evaluation (llama.cpp's n_threads).
        threads_batch: threads of wider evaluations (llama.cpp's n_threads_batch).
        pools: quantized weight rows, shared between cases.
        readback: called with ([count, E] float32, first token, count); where faults are planted.
        hot: time on one set of weights, which a cache may hold.
        turn: called with (rounds timed, rounds planned): whether to time another one.
    """

    library: Library
    backend: Computing
    pools: PoolStore
    buft: str | None = None
    threads: int = 1
    threads_batch: int = 1
    readback: Readback = field(default=as_read)
    hot: bool = False
    turn: Callable[[int, int], bool] = field(default=as_planned)

    def compute(self, placed: Placed, width: int) -> None:
        """Run a graph with the thread count that llama.cpp would use for this width."""
        self.backend.set_threads(self.threads if width == 1 else self.threads_batch)
        placed.compute()

    def choices(self, evaluator: Evaluator, width: int) -> dict[str, Any]:
        """What a scheduler chose for a width that was just run, as fields of record.Result."""
        placed = evaluator.blocks[width].placed
        if not placed.backends:
            return {}
        ran_blas = any(device.backend == "BLAS" for device in placed.devices)
        return {
            "backends": placed.backends, "weights_buft": evaluator.weights.buft,
            "openblas_threads": blas.threads(self.library) if ran_blas else None,
        }  # fmt: skip


class WeightSet(Protocol):
    """What a case reads again in every evaluation: its weights, or its caches.

    Attributes:
        buft: name of the buffer type they are in. size: bytes of their buffer.
    """

    buft: str
    size: int

    def close(self) -> None:
        """Free the memory."""


class Evaluator(Protocol):
    """Runs one case: any block of its tokens, and the float64 truth of each token.

    The tokens are fixed by `load`; `evaluate(0, W)` is width W, `evaluate(t, 1)` is token t alone.
    """

    @property
    def weights(self) -> Any:
        """The `WeightSet` of the case."""

    @property
    def blocks(self) -> Blocks:
        """Graphs by width."""

    def open(self) -> None:
        """Allocate and fill the weights."""

    def load(self, seed: int) -> None:
        """Make the inputs of a seed; the weights stay those of the weights seed."""

    def evaluate(self, first: int, count: int) -> np.ndarray:
        """Outputs of `count` tokens from `first` on, evaluated together: float32 [count, E]."""

    def reference(self, token: int) -> tuple[np.ndarray, np.ndarray]:
        """Float64 output [E] from the dequantized inputs, and sum |w x| [E] behind each element."""

    def copy_weights(self) -> WeightSet:
        """The weights of the case again, in memory of their own."""

    def weights_read(self, count: int) -> int:
        """Bytes of the weights that one evaluation of the first `count` tokens reads."""

    def timed(self, count: int, copies: int, sets: Sequence[Any]) -> TimedGraph:
        """`copies` evaluations of the first `count` tokens in one graph.

        Args:
            sets: `weights` and copies of them, which the evaluations use in turn.
        """

    def close(self) -> None:
        """Free buffers and graphs."""


E = TypeVar("E", bound=Evaluator)


class Op(Protocol):
    """Parameters of a case: everything but the width."""

    OP: ClassVar[str]

    def upstream_case(self, width: int) -> str:
        """The string test-backend-ops prints for this case at this width."""

    def case(self) -> str:
        """The same string without the width."""

    def params(self) -> dict[str, Any]:
        """Parameters under upstream's names, without the width."""

    def rows(self) -> tuple[tuple[str, int], ...]:
        """Types the library must have, each with the length of a row of it."""

    def bound(self, features: Mapping[str, str]) -> float:
        """Upstream's max_nmse_err() for this op on a device with these features."""

    def bytes_needed(self, library: Library, widest: int) -> int:
        """Bytes of all tensors of the case at its widest width."""

    def flops(self, width: int) -> int:
        """Operations of one evaluation, as upstream's op_flops() counts them."""

    def prepare(self, session: Session, weights_seed: int, widest: int) -> Evaluator:
        """An open evaluator: weights allocated and filled.

        Raises:
            Unsupported: the device does not run the op with these parameters.
            OutOfMemory: a buffer could not be allocated.
        """


def opened(evaluator: E) -> E:
    """Open an evaluator; where that fails, free what it has allocated."""
    try:
        evaluator.open()
    except BaseException:
        evaluator.close()
        raise
    return evaluator


def value_text(value: Any) -> str:
    """A value as upstream's var_to_str prints it: std::to_string, arrays in brackets."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return f"{value:.6f}"
    if isinstance(value, (tuple, list)):
        return "[" + ",".join(value_text(item) for item in value) + "]"
    return str(value)


def case_text(op: str, **variables: Any) -> str:
    """`OP(name=value,...)` as test-backend-ops prints it; a variable that is None is left out."""
    inner = ",".join(f"{k}={value_text(v)}" for k, v in variables.items() if v is not None)
    return f"{op}({inner})"


def nondefault(op: Any, *names: str) -> dict[str, Any]:
    """Those of the named dataclass fields whose value is not the default, by name."""
    fields = {f.name: f.default for f in dataclasses.fields(op)}
    return {name: getattr(op, name) for name in names if getattr(op, name) != fields[name]}


def nmse_bound(type_a: str, features: Mapping[str, str]) -> float:
    """5e-4, or 2e-2 for FP4 weights where activations become FP4 too (test-backend-ops.cpp)."""
    native_fp4 = features.get("BLACKWELL_NATIVE_FP4", "0") not in ("0", "")
    return 2e-2 if native_fp4 and type_a in ("mxfp4", "nvfp4") else 5e-4


class BlockGraph:
    """One width's graph: inputs, nodes, and an output that is filled with NaN before each run.

    Args:
        build: makes the inputs and nodes in a context; returns (inputs by name, nodes). The last
            node is the output: float32 [.., tokens, streams], fastest first.
        streams: size of what lies outside the tokens in the output (batch, streams).

    Attributes:
        placed: the graph in memory.
        moved: bytes of inputs, of the output, and of nodes between them both ways.
    """

    def __init__(
        self,
        session: Session,
        build: Callable[[Context, int], tuple[dict[str, Tensor], list[Tensor]]],
        count: int,
        streams: int = 1,
    ) -> None:
        self.session, self.count, self.streams = session, count, streams
        self.context = Context(session.library)
        try:
            self.inputs, nodes = build(self.context, count)
            self.out = nodes[-1]
            self.placed = session.backend.place(self.context, [(self.inputs, nodes)])
            made = [*self.inputs.values(), *nodes, *nodes[:-1]]
            self.moved = sum(tensor.nbytes for tensor in made)
        except BaseException:
            self.context.close()
            raise
        self.fill = np.full(self.out.nbytes // 4, compare.UNWRITTEN, np.uint32)

    def run(self, first: int, **inputs: np.ndarray) -> np.ndarray:
        """Set the inputs, compute, read back: float32 [count, E]."""
        for name, array in inputs.items():
            self.inputs[name].set(array)
        self.out.set(self.fill)
        self.session.compute(self.placed, self.count)
        out = self.out.get(np.float32).reshape(self.streams, self.count, -1)
        tokens = out.transpose(1, 0, 2).reshape(self.count, -1)
        return self.session.readback(np.ascontiguousarray(tokens), first, self.count)


class Blocks:
    """Graphs by width, built when first asked for and kept for the next seed."""

    def __init__(self, make: Callable[[int], BlockGraph]) -> None:
        self._make = make
        self._graphs: dict[int, BlockGraph] = {}

    def __getitem__(self, count: int) -> BlockGraph:
        if count not in self._graphs:
            self._graphs[count] = self._make(count)
        return self._graphs[count]

    def support(self) -> None:
        """Raise Unsupported where the device does not run the op at width 1."""
        self[1]

    def close(self) -> None:
        """Free every graph's buffers."""
        for graph in self._graphs.values():
            graph.context.close()
        self._graphs.clear()
