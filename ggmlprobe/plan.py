"""From options to cases and configs: products of lists, checked against what the library has."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ggmlprobe.errors import UnknownDevice, UnknownType, UsageError
from ggmlprobe.ops import OPS
from ggmlprobe.ops.attention import Attention
from ggmlprobe.record import Config, DeviceRecord, LibraryInfo
from ggmlprobe.runner import Case
from ggmlprobe.worker.protocol import Event

# formats of quantized activations: no model's weights have them
ACTIVATION_TYPES = ("q8_1", "q8_K")


def all_types(types: Mapping[str, Any]) -> list[str]:
    """Every type weights can have: float ones, then quantized ones, in the library's order."""
    floats = [name for name in ("f32", "f16", "bf16") if name in types]
    quantized = [name for name, info in types.items() if info["quantized"]]
    return floats + [name for name in quantized if name not in ACTIVATION_TYPES]


def product(op_name: str, lists: Mapping[str, Sequence[Any]], widths: Iterable[int]) -> list[Case]:
    """A case for every combination of the listed values; the first list varies slowest."""
    combinations = itertools.product(*lists.values())
    chosen = tuple(sorted(set(widths)))
    if not chosen:
        raise UsageError("0 widths: give --widths, such as 1-9")
    made = [OPS[op_name](**dict(zip(lists, values, strict=True))) for values in combinations]
    return [Case(op_name, op, chosen) for op in made]


def check_cases(cases: Sequence[Case], types: Mapping[str, Any]) -> None:
    """Refuse what cannot run at all; where only some rows misfit, those become rows of the table.

    Raises:
        UnknownType: a type the library does not have.
        UsageError: no cases, none whose rows are a multiple of its type's block size, or none
            whose used cells are enough for its widest width.
    """
    if not cases:
        raise UsageError("0 cases to run: name at least one type, shape and width")
    misfits = []
    for case in cases:
        for name, length in case.op.rows():
            if name not in types:
                raise UnknownType(f"no type {name} in this library: it has {', '.join(types)}")
            if length % types[name]["blck_size"]:
                misfits.append((case, name, length))
    if len({id(case) for case, _, _ in misfits}) == len(cases):
        _, name, length = misfits[0]
        block = types[name]["blck_size"]
        raise UsageError(f"rows of {length} do not fit {name}: give a multiple of {block}")
    check_cells(cases)


def check_cells(cases: Sequence[Case]) -> None:
    """Raise UsageError where no case has used cells for all tokens of its widest width."""
    short = [
        (case.op.cells, case.widest)
        for case in cases
        if isinstance(case.op, Attention) and case.op.cells < case.widest
    ]
    if len(short) == len(cases):
        cells, widest = short[0]
        raise UsageError(
            f"--kv {cells} is less than the widest width {widest}: "
            "give more cells or smaller --widths"
        )


def pick_device(devices: Sequence[Event], name: str | None) -> Event:
    """The named device in any case, without a name the first GPU, else the CPU.

    Raises:
        UnknownDevice: lists what there is.
    """
    if name is None:
        for kind in ("GPU", "CPU"):
            for device in devices:
                if device["type"] == kind:
                    return device
    for device in devices:
        if name is not None and device["name"].lower() == name.lower():
            return device
    there = ", ".join(device["name"] for device in devices)
    raise UnknownDevice(f"no device {name or 'of type GPU or CPU'}: this library has {there}")


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


def configs(
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
    device = pick_device(ready["devices"], device_name)
    fields = {f.name for f in dataclasses.fields(DeviceRecord)}
    described = DeviceRecord(**{name: device[name] for name in fields})
    pairs = [(t, b) for t in threads for b in (threads_batch or [t])]
    named = [pick_buft(device, buft) for buft in bufts]
    return [
        Config(f"c{i}", LibraryInfo(**ready["library"]), described, buft, t, b, dict(env))
        for i, (buft, (t, b)) in enumerate(itertools.product(named, pairs), first_id)
    ]
