"""A scheduler over several devices, as llama.cpp makes it: ggml_backend_sched places each node.

Op offload and BLAS exist only here. What is followed, in llama.cpp's src/: the backends and their
buffer types (llama-context.cpp, its constructor and sched_reserve), and the buffer types of weights
of a layer that is kept on the CPU (make_cpu_buft_list in llama-model.cpp).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ggmlprobe.errors import OutOfMemory, UnknownDevice
from ggmlprobe.ggml.computing import Computing, WeightPlace
from ggmlprobe.ggml.device import BETWEEN, Backend, joined, named_buft

if TYPE_CHECKING:
    from ggmlprobe.ggml.computing import Evaluation
    from ggmlprobe.ggml.graph import Graph
    from ggmlprobe.ggml.library import Library
    from ggmlprobe.ggml.tensor import Context, Tensor

GPUS = ("GPU", "IGPU")
# Room in the scheduler's tables for what lies in other contexts: weights, caches.
_SLACK = 16


def start(lib: Library, name: str | None) -> Computing:
    """Start the device of a name, or a scheduler over the devices of a name such as BLAS+CPU.

    Raises:
        UnknownDevice: no such device, or devices that cannot be scheduled.
    """
    if name is None or BETWEEN not in name:
        return Backend(lib, name)
    return Scheduler(lib, name.split(BETWEEN))


def check_order(name: str, types: Sequence[str]) -> None:
    """Refuse devices whose last one is not a CPU: it takes what no other one does.

    Raises:
        UnknownDevice: says what a scheduler needs.
    """
    if types[-1] != "CPU":
        raise UnknownDevice(f"--device {name}: the CPU device must stand last, as in BLAS+CPU")


class ScheduledGraph:
    """A graph whose nodes a scheduler of its own has placed; see `computing.Placed`."""

    def __init__(
        self, scheduler: Scheduler, graph: Graph, nodes: Sequence[Tensor], size: int
    ) -> None:
        """Place the nodes and give memory to all of it.

        Args:
            nodes: those to be told of.
            size: tensors there may be.
        """
        self._scheduler, self._graph = scheduler, graph
        c, ffi, backends = scheduler.lib.c, scheduler.lib.ffi, scheduler.backends
        self._lib = scheduler.lib
        self.ptr = c.ggml_backend_sched_new(
            ffi.new("struct ggml_backend *[]", [each.ptr for each in backends]),
            ffi.new("struct ggml_backend_buffer_type *[]", scheduler.compute_bufts),
            len(backends), size, False, True,
        )  # fmt: skip
        if not c.ggml_backend_sched_alloc_graph(self.ptr, graph.ptr):
            self.free()
            raise OutOfMemory(f"{scheduler.info.name}: no memory for a graph; use a smaller case")
        sizes = [c.ggml_backend_sched_get_buffer_size(self.ptr, each.ptr) for each in backends]
        self.size = sum(map(int, sizes))
        ran = [c.ggml_backend_sched_get_tensor_backend(self.ptr, node.ptr) for node in nodes]
        self.devices = [each.info for each in backends if each.ptr in ran]
        names = {each.ptr: each.info.name for each in backends}
        self.backends = list(dict.fromkeys(names[ptr] for ptr in ran))

    def compute(self) -> None:
        """Compute it and wait."""
        function = self._lib.c.ggml_backend_sched_graph_compute
        self._scheduler.run(function, self.ptr, self._graph.ptr)

    def free(self) -> None:
        """Give the memory back; harmless if done before."""
        if self.ptr != self._lib.ffi.NULL:
            self._lib.c.ggml_backend_sched_free(self.ptr)
            self.ptr = self._lib.ffi.NULL


class Scheduler(Computing):
    """Devices in the order of their priority, with op offload.

    Attributes:
        backends: the last one is the CPU's.
        compute_bufts: buffer type of each for what a graph makes.
    """

    def __init__(self, lib: Library, names: Sequence[str]) -> None:
        """Start the devices.

        Raises:
            UnknownDevice: no such device, the last is no CPU, or a library without op offload.
        """
        super().__init__(lib)
        # the parameter op_offload is older than this function
        if not lib.has("ggml_version"):
            raise UnknownDevice(
                f"{lib.found.directory} is too old for a scheduler: its ggml_backend_sched_new may "
                "have another signature; give a build from ggml 0.9 on, or one device"
            )
        self.backends = [Backend(lib, name) for name in names]
        self.info = joined([each.info for each in self.backends])
        check_order(self.info.name, [each.info.type for each in self.backends])
        made = {name: buft for each in self.backends for name, buft in each.bufts.items()}
        self.bufts = {name: made[name] for name in self.info.bufts}
        self.compute_bufts = [each.buft() for each in self.backends]
        host = self._host()
        if host is not None:
            self.compute_bufts[-1] = self.bufts[host.buft]

    def _host(self) -> WeightPlace | None:
        """Return the host buffer type of the first GPU, where it has one."""
        for each in self.backends:
            if each.info.type in GPUS:
                buft = self.lib.c.ggml_backend_dev_host_buffer_type(each.device)
                name = self.lib.text(self.lib.c.ggml_backend_buft_name(buft)) if buft else ""
                return WeightPlace(name, each.supports) if name else None
        return None

    def set_threads(self, n: int) -> None:
        """Use n threads from the next compute on, on every device that has the choice."""
        for each in self.backends:
            each.set_threads(n)

    def memory_free(self) -> int:
        """Return the bytes the CPU can still allocate."""
        return self.backends[-1].memory_free()

    def buft(self, name: str | None = None) -> Any:
        """Return a buffer type by name in any case; None for the CPU's default."""
        return named_buft(self.info, self.bufts, name)

    def weight_places(self, name: str | None) -> list[WeightPlace]:
        """Return the buffer type of that name, else those that llama.cpp tries, in its order.

        Buffers of accelerators that are not the CPU's own, the host buffer of the first GPU, then
        the CPU's extra buffer types and its default.
        """
        if name is not None:
            return [WeightPlace(name, self.supports)]
        *others, cpu = self.backends
        default, *extra = cpu.info.bufts
        places = [
            WeightPlace(each.info.bufts[0], each.supports)
            for each in others
            if each.info.type == "ACCEL" and each.info.bufts[0] != default
        ]
        places += filter(None, [self._host()])
        return places + [WeightPlace(buft, cpu.supports) for buft in (*extra, default)]

    def supports(self, tensor: Tensor) -> bool:
        """Tell whether one of the devices can compute this op as it stands."""
        return any(each.supports(tensor) for each in self.backends)

    def place(self, context: Context, evaluations: Sequence[Evaluation]) -> ScheduledGraph:
        """Have a scheduler place the nodes; see `Computing.place`.

        Outputs of nodes in between are left to the allocator, so that no fused node is parted.
        """
        nodes = [node for _, each in evaluations for node in each]
        # the scheduler would abort the process
        self.require(nodes)
        for inputs, each in evaluations:
            for tensor in inputs.values():
                context.call("set_input", tensor)
                # or their memory goes to a node once they were read
                context.call("set_output", tensor)
            context.call("set_output", each[-1])
        graph = context.graph(*[each[-1] for _, each in evaluations])
        placed = ScheduledGraph(self, graph, nodes, 2 * context.made + _SLACK)
        context.own(placed)
        # views have their buffers only now
        self.require(nodes)
        return placed

    def free(self) -> None:
        """Stop the devices; harmless if done before."""
        for each in self.backends:
            each.free()
