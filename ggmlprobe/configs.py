"""From options to configs: devices, buffer types, threads and environments that were named."""

from __future__ import annotations

import dataclasses
import itertools
import string
from collections.abc import Mapping, Sequence

from ggmlprobe.endpoint import endpoint_of
from ggmlprobe.errors import UnknownDevice, UsageError
from ggmlprobe.ggml.device import BETWEEN, DeviceInfo, joined
from ggmlprobe.ggml.sched import check_order
from ggmlprobe.record import Config, DeviceRecord, LibraryInfo
from ggmlprobe.worker.protocol import Event

ALL = "all"
# an accelerator such as BLAS computes only a few ops, and beside the CPU
COMPLETE = ("CPU", "GPU", "IGPU")
# what a build is configured with for devices of these names, which end in a number or not
BUILT_WITH = {
    "blas": "GGML_BLAS", "cann": "GGML_CANN", "cuda": "GGML_CUDA", "gpuopencl": "GGML_OPENCL",
    "mtl": "GGML_METAL", "musa": "GGML_MUSA", "rocm": "GGML_HIP", "sycl": "GGML_SYCL",
    "vulkan": "GGML_VULKAN",
}  # fmt: skip


def named_devices(ready: Event, name: str) -> list[str]:
    """Names of the devices that `all`, rpc://HOST:PORT or a device's own name stands for.

    Args:
        ready: a child's description, which has the server's devices where the name is a server.

    Raises:
        UnknownDevice: lists what there is.
    """
    devices = ready["devices"]
    if (endpoint := endpoint_of(name)) is not None:
        return [device["name"] for device in devices if device["endpoint"] == endpoint]
    if name.lower() == ALL:
        return [device["name"] for device in devices if device["type"] in COMPLETE]
    return [pick_device(ready, name)["name"]]


def only_device(names: Sequence[str] | None, command: str, option: str = "--device") -> str | None:
    """The device of a command that takes one, of this machine; None for the default.

    Raises:
        UsageError: several, or a server's.
    """
    if names is None:
        return None
    if len(names) > 1 or names[0].lower() == ALL or endpoint_of(names[0]) is not None:
        raise UsageError(
            f"{option} {','.join(names)}: {command} takes one device, and of this machine"
        )
    return names[0]


def pick_device(ready: Event, name: str | None) -> Event:
    """The named device in any case, without a name the first GPU, else the CPU.

    Args:
        name: such as CPU, or BLAS+CPU for what schedules nodes on several.

    Raises:
        UnknownDevice: lists what there is, and says why a backend has none; or a name is empty, or
            the devices cannot be scheduled.
    """
    parts = [] if name is None else name.split(BETWEEN)
    if "" in parts:
        given = name or "''"
        raise UnknownDevice(f"--device {given}: a name is empty, write it as in CPU or BLAS+CPU")
    if len(parts) > 1:
        return _scheduled([pick_device(ready, part) for part in parts])
    devices: list[Event] = ready["devices"]
    if name is None:
        for kind in ("GPU", "CPU"):
            for device in devices:
                if device["type"] == kind:
                    return device
    for device in devices:
        if name is not None and device["name"].lower() == name.lower():
            return device
    there = ", ".join(device["name"] for device in devices)
    said = "; ".join([f"this library has {there}", *ready["silent"], *_not_built(ready, name)])
    raise UnknownDevice(f"no device {name or 'of type GPU or CPU'}: {said}")


def _not_built(ready: Event, name: str | None) -> list[str]:
    """That the library lacks the whole backend of a device, where nothing else is known of it."""
    family = (name or "").rstrip(string.digits)
    known = [*(device["name"] for device in ready["devices"]), *ready["silent"]]
    option = BUILT_WITH.get(family.lower())
    if option is None or any(family.lower() in each.lower() for each in known):
        return []
    return [f"it has no {family} backend: give a build with -D{option}=ON"]


def _scheduled(devices: Sequence[Event]) -> Event:
    """Devices that nodes are scheduled on, as one."""
    given = [device["name"] for device in devices]
    if twice := next((name for name in given if given.count(name) > 1), None):
        raise UnknownDevice(f"--device {BETWEEN.join(given)}: {twice} is there twice: name it once")
    names = [field.name for field in dataclasses.fields(DeviceInfo)]
    infos = [DeviceInfo(**{name: device[name] for name in names}) for device in devices]
    whole = joined(infos)
    check_order(whole.name, [info.type for info in infos])
    return dataclasses.asdict(whole)


def pick_buft(device: Event, name: str | None) -> str | None:
    """The buffer type as the device spells it.

    Raises:
        UnknownDevice: lists what the device has.
    """
    for buft in device["bufts"]:
        if name is not None and buft.lower() == name.lower():
            return str(buft)
    if name is not None:
        there = ", ".join(device["bufts"])
        raise UnknownDevice(f"no buffer type {name}: {device['name']} has {there}")
    return None


def environments(
    settings: Sequence[tuple[str, Sequence[str]]],
) -> list[dict[str, str | None]]:
    """The product of settings; the first has every variable unset, which is the baseline.

    Raises:
        UsageError: a variable is named twice.
    """
    names = [name for name, _ in settings]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--set-env {name} is there twice: write {name}=A,B")
    values = [tuple(dict.fromkeys([None, *(v or None for v in given)])) for _, given in settings]
    return [dict(zip(names, each, strict=True)) for each in itertools.product(*values)]


def configs_of(
    ready: Event,
    device_name: str | None,
    bufts: Sequence[str | None],
    threads: Sequence[int],
    threads_batch: Sequence[int] | None,
    env: Mapping[str, str | None],
    first_id: int = 0,
) -> list[Config]:
    """A config for every buffer type and thread count.

    Args:
        ready: the child's description of its library.
        threads_batch: None for the same as `threads`; one value goes with every thread count.
        env: variables set for this child. first_id: number of the first config.
    """
    device = pick_device(ready, device_name)
    fields = {f.name for f in dataclasses.fields(DeviceRecord)}
    described = DeviceRecord(**{name: device[name] for name in fields})
    pairs = [(t, b) for t in threads for b in (threads_batch or [t])]
    named = [pick_buft(device, buft) for buft in bufts]
    return [
        Config(f"c{i}", LibraryInfo(**ready["library"]), described, buft, t, b, dict(env))
        for i, (buft, (t, b)) in enumerate(itertools.product(named, pairs), first_id)
    ]
