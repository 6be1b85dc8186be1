"""The devices of a loaded library, and a backend that computes on one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ggmlprobe.errors import UnknownDevice, Unsupported
from ggmlprobe.ggml import blas, cuda_driver, memory, rpc, vulkan_loader
from ggmlprobe.ggml.computing import Computing, WeightPlace

if TYPE_CHECKING:
    from ggmlprobe.ggml.computing import Evaluation
    from ggmlprobe.ggml.library import Library
    from ggmlprobe.ggml.tensor import Context, Graph, Tensor

# enum ggml_backend_dev_type of ggml-backend.h.
_TYPES = ("CPU", "GPU", "IGPU", "ACCEL", "META")
# Between the devices of a scheduler, and between what is told of each.
BETWEEN = "+"


@dataclass(frozen=True)
class DeviceInfo:
    """One device of a library.

    Attributes:
        name: ggml's name, such as CPU or CUDA0.
        description: the hardware's name.
        type: CPU, GPU, IGPU, ACCEL or META.
        memory_free: bytes that can still be allocated (CPU: as far as the system and its
            control groups allow).
        memory_total: bytes.
        backend: name of the backend it belongs to.
        features: what ggml_backend_get_features lists, {} where the backend has none; for CUDA also
            COMPUTE_CAPABILITY and SM_COUNT from the driver, for BLAS what OpenBLAS says of itself,
            for Vulkan what its loader tells.
        bufts: names of its buffer types: default, extra ones, then host.
        endpoint: host:port of the server it is on, None for one of this machine.
    """

    name: str
    description: str
    type: str
    memory_free: int
    memory_total: int
    backend: str
    features: dict[str, str]
    bufts: list[str]
    endpoint: str | None = None


def joined(infos: Sequence[DeviceInfo]) -> DeviceInfo:
    """Describe a scheduler's devices as one; memory and default buffer type are the last one's."""
    last = infos[-1]
    bufts = [name for info in (last, *infos) for name in info.bufts]
    return DeviceInfo(
        name=BETWEEN.join(info.name for info in infos),
        description=", ".join(info.description for info in infos),
        type=BETWEEN.join(info.type for info in infos),
        memory_free=last.memory_free,
        memory_total=last.memory_total,
        backend=BETWEEN.join(info.backend for info in infos),
        features={name: value for info in infos for name, value in info.features.items()},
        bufts=list(dict.fromkeys(bufts)),
        endpoint=next((info.endpoint for info in infos if info.endpoint), None),
    )


def _proc(lib: Library, device: Any, name: str, kind: str) -> Any:
    """Return a backend's optional function, or None."""
    reg = lib.c.ggml_backend_dev_backend_reg(device)
    if reg == lib.ffi.NULL:
        return None
    address = lib.c.ggml_backend_reg_get_proc_address(reg, name.encode())
    return None if address == lib.ffi.NULL else lib.ffi.cast(kind, address)


def _features(lib: Library, device: Any) -> dict[str, str]:
    get = _proc(lib, device, "ggml_backend_get_features", "ggml_backend_get_features_t")
    features: dict[str, str] = {}
    if get is None:
        return features
    entry = get(lib.c.ggml_backend_dev_backend_reg(device))
    while entry and entry.name:
        features[lib.text(entry.name)] = lib.text(entry.value)
        entry += 1
    return features


def _bufts(lib: Library, device: Any) -> dict[str, Any]:
    """Return a device's buffer types by name: default first, then extra ones, then host."""
    found = [lib.c.ggml_backend_dev_buffer_type(device)]
    extra = _proc(
        lib, device, "ggml_backend_dev_get_extra_bufts", "ggml_backend_dev_get_extra_bufts_t"
    )
    entry = extra(device) if extra else None
    while entry and entry[0]:
        found.append(entry[0])
        entry += 1
    found.append(lib.c.ggml_backend_dev_host_buffer_type(device))
    return {lib.text(lib.c.ggml_backend_buft_name(buft)): buft for buft in found if buft}


def _type(lib: Library, device: Any, backend: str) -> str:
    number = lib.c.ggml_backend_dev_type(device)
    # Before IGPU was added in September 2025, 2 meant ACCEL; BLAS is the one such device.
    if backend == "BLAS":
        return "ACCEL"
    return _TYPES[number] if 0 <= number < len(_TYPES) else str(number)


def _info(lib: Library, device: Any) -> DeviceInfo:
    free, total = lib.ffi.new("size_t *"), lib.ffi.new("size_t *")
    lib.c.ggml_backend_dev_memory(device, free, total)
    backend = lib.text(lib.c.ggml_backend_reg_name(lib.c.ggml_backend_dev_backend_reg(device)))
    type_ = _type(lib, device, backend)
    room = memory.available() if type_ == "CPU" else None
    name = lib.text(lib.c.ggml_backend_dev_name(device))
    description = lib.text(lib.c.ggml_backend_dev_description(device))
    extra = blas.properties(lib) if backend == "BLAS" else {}
    if backend == "Vulkan":
        extra = vulkan_loader.properties(description)
    return DeviceInfo(
        name=name,
        description=description,
        type=type_,
        memory_free=free[0] if room is None else min(free[0] or room, room),
        memory_total=total[0],
        backend=backend,
        features=_features(lib, device) | cuda_driver.properties(name) | extra,
        bufts=list(_bufts(lib, device)),
        endpoint=lib.endpoints.get(name),
    )


def _handles(lib: Library) -> list[Any]:
    return [lib.c.ggml_backend_dev_get(index) for index in range(lib.c.ggml_backend_dev_count())]


def devices(lib: Library) -> list[DeviceInfo]:
    """Return every device the library offers, in its own order."""
    return [_info(lib, device) for device in _handles(lib)]


def cpu_name(lib: Library) -> str:
    """Return the name of the library's CPU device.

    Raises:
        UnknownDevice: it has none.
    """
    for device in _handles(lib):
        if lib.c.ggml_backend_dev_type(device) == 0:
            return lib.text(lib.c.ggml_backend_dev_name(device))
    raise UnknownDevice(f"no CPU device in {lib.found.directory}; give a build with libggml-cpu")


def _pick(lib: Library, name: str | None) -> Any:
    """Return the device of that name in any case; without one the first GPU, else the CPU."""
    handles = _handles(lib)
    names = [lib.text(lib.c.ggml_backend_dev_name(device)) for device in handles]
    if name is None:
        types = [lib.c.ggml_backend_dev_type(device) for device in handles]
        wanted = 1 if 1 in types else 0
        if wanted in types:
            return handles[types.index(wanted)]
    for device, each in zip(handles, names, strict=True):
        if name is not None and each.lower() == name.lower():
            return device
    asked = f"no device {name}" if name is not None else "no CPU or GPU device"
    silent = "".join(f"; {line}" for line in lib.silent_backends())
    raise UnknownDevice(f"{asked} in {lib.found.directory}; there are: {', '.join(names)}{silent}")


class PlacedGraph:
    """A graph on one device; see `computing.Placed`."""

    def __init__(self, backend: Backend, graph: Graph, size: int) -> None:
        """Nothing chose the device, so `backends` is empty."""
        self._backend, self._graph, self.size = backend, graph, size
        self.backends: list[str] = []
        self.devices = [backend.info]

    def compute(self) -> None:
        """Compute it and wait."""
        self._backend.compute(self._graph)


class Backend(Computing):
    """A started device.

    Attributes:
        device: ggml_backend_dev_t. ptr: ggml_backend_t.
    """

    def __init__(self, lib: Library, device_name: str | None = None) -> None:
        """Start a device.

        Args:
            lib: the library.
            device_name: in any case; None for the first GPU, else the CPU.

        Raises:
            UnknownDevice: no device of that name, or it cannot be started.
        """
        super().__init__(lib)
        self.device = _pick(lib, device_name)
        self.info = _info(lib, self.device)
        self.ptr = lib.c.ggml_backend_dev_init(self.device, lib.ffi.NULL)
        if self.ptr == lib.ffi.NULL:
            raise UnknownDevice(f"device {self.info.name} cannot be started; give another --device")
        self.bufts = _bufts(lib, self.device)
        self._set_threads = _proc(
            lib, self.device, "ggml_backend_set_n_threads", "ggml_backend_set_n_threads_t"
        )

    def set_threads(self, n: int) -> None:
        """Use n threads from the next compute on; no effect on devices without that choice."""
        if self._set_threads is not None:
            self._set_threads(self.ptr, n)

    def memory_free(self) -> int:
        """Return the bytes that can still be allocated now; 0 where the device does not say."""
        return _info(self.lib, self.device).memory_free

    def buft(self, name: str | None = None) -> Any:
        """Return a buffer type by name in any case; None for the device's default."""
        return named_buft(self.info, self.bufts, name)

    def weight_places(self, name: str | None) -> list[WeightPlace]:
        """Return the buffer type of that name, else the device's default.

        Raises:
            Unsupported: the device cannot read it: it is for what others read, such as the host.
        """
        if not self.lib.c.ggml_backend_dev_supports_buft(self.device, self.buft(name)):
            raise Unsupported(f"{self.info.name} does not compute on weights in {name}")
        return [WeightPlace(name or self.info.bufts[0], self.supports)]

    def supports(self, tensor: Tensor) -> bool:
        """Tell whether the device can compute this op as it stands."""
        return bool(self.lib.c.ggml_backend_dev_supports_op(self.device, tensor.ptr))

    def place(self, context: Context, evaluations: Sequence[Evaluation]) -> PlacedGraph:
        """Give every tensor memory of its own."""
        size = context.allocate(self, usage="any").size
        self.require(node for _, nodes in evaluations for node in nodes)
        graph = context.graph(*[nodes[-1] for _, nodes in evaluations])
        return PlacedGraph(self, graph, size)

    def compute(self, graph: Graph) -> None:
        """Compute a graph and wait for it; see `run`."""
        compute = rpc.computed(self.lib) if self.info.endpoint else None
        self.run(compute or self.lib.c.ggml_backend_graph_compute, self.ptr, graph.ptr)

    def free(self) -> None:
        """Stop the device; harmless if done before."""
        if self.ptr != self.lib.ffi.NULL:
            self.lib.c.ggml_backend_free(self.ptr)
            self.ptr = self.lib.ffi.NULL


def named_buft(info: DeviceInfo, bufts: Mapping[str, Any], name: str | None) -> Any:
    """Return a buffer type by name in any case; None for the first.

    Raises:
        UnknownDevice: there is none of that name; lists what there is.
    """
    if name is None:
        return next(iter(bufts.values()))
    for each, buft in bufts.items():
        if each.lower() == name.lower():
            return buft
    there = ", ".join(bufts)
    raise UnknownDevice(f"device {info.name} has no buffer type {name}; it has {there}")
