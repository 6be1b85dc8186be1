"""What a device and a scheduler over several devices share: graphs placed, computed and timed."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ggmlprobe.errors import ComputeFailed, OutOfMemory, Unsupported

if TYPE_CHECKING:
    from ggmlprobe.ggml.device import DeviceInfo
    from ggmlprobe.ggml.library import Library
    from ggmlprobe.ggml.tensor import Context, Tensor

    Evaluation = tuple[Mapping[str, Tensor], Sequence[Tensor]]
    """Inputs by name, and nodes, the last of which is the output."""

# enum ggml_status of ggml.h.
_STATUS = {-2: "ALLOC_FAILED", -1: "FAILED", 0: "SUCCESS", 1: "ABORTED"}


class Placed(Protocol):
    """A graph that has memory and can be computed, again and again.

    Attributes:
        size: bytes of its inputs, nodes and outputs.
        backends: devices a scheduler gave the nodes to, in their order; none where nothing chose.
        devices: devices that compute them.
    """

    size: int
    backends: list[str]
    devices: list[DeviceInfo]

    def compute(self) -> None:
        """Compute it and wait; see `Computing.run`."""


@dataclass(frozen=True)
class WeightPlace:
    """A buffer type that may hold weights.

    Attributes:
        buft: its name.
        supports: whether the device that it is for runs an op on weights in it.
    """

    buft: str
    supports: Callable[[Tensor], bool]


class Computing(ABC):
    """Computes graphs.

    Attributes:
        info: the device, or the devices as one.
        compute_seconds: wall time spent inside ggml's own function so far.
        computes: how many graphs were computed.
        around: makes a context that is entered around each compute, apart from its time.
    """

    info: DeviceInfo

    def __init__(self, lib: Library) -> None:
        """Count from zero."""
        self.lib = lib
        self.compute_seconds = 0.0
        self.computes = 0
        self.around: Callable[[], AbstractContextManager[None]] = nullcontext

    @abstractmethod
    def set_threads(self, n: int) -> None:
        """Use n threads from the next compute on; no effect on devices without that choice."""

    @abstractmethod
    def memory_free(self) -> int:
        """Return the bytes that can still be allocated now; 0 where the device does not say."""

    @abstractmethod
    def buft(self, name: str | None = None) -> Any:
        """Return a buffer type by name in any case; None for the default.

        Raises:
            UnknownDevice: there is no such buffer type; lists what there is.
        """

    @abstractmethod
    def weight_places(self, name: str | None) -> list[WeightPlace]:
        """Return where weights may go, the best place first.

        Args:
            name: of the buffer type that was asked for, None for the usual choice.

        Raises:
            Unsupported: weights in that one cannot be computed on.
        """

    @abstractmethod
    def supports(self, tensor: Tensor) -> bool:
        """Tell whether the op can be computed as it stands."""

    @abstractmethod
    def place(self, context: Context, evaluations: Sequence[Evaluation]) -> Placed:
        """Give memory to what a context has made, and make the graph of its evaluations.

        Inputs keep their data, outputs have memory of their own. The context frees all of it.

        Raises:
            Unsupported: a node that cannot be computed.
            OutOfMemory: a buffer could not be allocated.
        """

    @abstractmethod
    def free(self) -> None:
        """Stop; harmless if done before."""

    def require(self, nodes: Iterable[Tensor]) -> None:
        """Raise Unsupported where a node cannot be computed."""
        if not all(self.supports(node) for node in nodes):
            raise Unsupported(f"{self.info.name} does not support this op with these parameters")

    def run(self, function: Any, computer: Any, graph: Any) -> None:
        """Have one of ggml's functions compute a graph, and wait for it.

        Raises:
            OutOfMemory: working memory could not be allocated.
            ComputeFailed: any other status than success.
        """
        with self.around():
            start = time.perf_counter()
            status = function(computer, graph)
            self.compute_seconds += time.perf_counter() - start
        self.computes += 1
        if status == 0:
            return
        name = _STATUS.get(status, str(status))
        text = f"{self.info.name}: graph_compute returned {name}"
        if name == "ALLOC_FAILED":
            raise OutOfMemory(f"{text}; use a smaller case")
        raise ComputeFailed(f"{text}; see the library's messages on stderr")
