"""The backends of a loaded library: loading those that are plug-ins, and why one is silent."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ggmlprobe.errors import LibraryBroken
from ggmlprobe.ggml import cuda_driver, vulkan_loader
from ggmlprobe.ggml.find import part_of
from ggmlprobe.ggml.maps import file_at, mapped_here
from ggmlprobe.ggml.symbols import open_file, refuse_cut

if TYPE_CHECKING:
    from ggmlprobe.ggml.library import Library

# Backends that register under another name than their file has.
_REGISTERED_AS = {"hip": "rocm", "metal": "mtl", "hexagon": "htp"}


def registered(lib: Library) -> dict[str, int]:
    """Return the backends that are there, lower case, with their numbers of devices."""
    return {
        lib.text(lib.c.ggml_backend_reg_name(reg)).lower(): lib.c.ggml_backend_reg_dev_count(reg)
        for reg in _regs(lib)
    }


def _regs(lib: Library) -> list[Any]:
    return [lib.c.ggml_backend_reg_get(index) for index in range(lib.c.ggml_backend_reg_count())]


def _absent(lib: Library) -> list[Path]:
    """Return the library's backend files whose backend is not registered, one per backend."""
    there = registered(lib)
    absent: dict[str, Path] = {}
    for path in _listed(lib):
        names = _names(path)
        if names and not there.keys() & names:
            absent.setdefault(min(names), path)
    return list(absent.values())


def _listed(lib: Library) -> list[Path]:
    return sorted(path for folder in lib.found.folders for path in folder.iterdir())


def to_open(lib: Library) -> list[str]:
    """Return the names of the backends in the files that `load` has libggml start."""
    paths = lib.found.plugins or _listed(lib)
    return sorted({(part_of(path.name) or "base").partition("-")[0] for path in paths} - {"base"})


def files(lib: Library, backend: str) -> list[str]:
    """Return the names of the loaded files a backend is in: libggml-cpu-haswell.so, or none."""
    return [path.name for path in lib.files if backend.lower() in _names(path)]


def serving(lib: Library, mapped: Sequence[Path]) -> tuple[Path, ...]:
    """Return mapped files without variants that libggml tried and passed over, and left mapped."""
    passed_over: set[Path] = set()
    for reg in _regs(lib):
        name = lib.text(lib.c.ggml_backend_reg_name(reg)).lower()
        variants = {path for path in mapped if name in _names(path)}
        code = lib.c.ggml_backend_reg_get_proc_address(reg, b"ggml_backend_get_features")
        holder = Path(file_at(int(lib.ffi.cast("uintptr_t", code))) or "")
        if holder in variants:
            passed_over |= variants - {holder}
    return tuple(path for path in mapped if path not in passed_over)


def _names(path: Path) -> set[str]:
    """Return the names, lower case, under which a file's backend may register."""
    family = (part_of(path.name) or "base").partition("-")[0]
    return {family, _REGISTERED_AS.get(family, family)} - {"base"}


def _not_damaged(lib: Library) -> None:
    """Refuse a folder with a backend that is cut short: libggml would open it, and crash.

    Raises:
        LibraryBroken: names the file.
    """
    for path in _listed(lib):
        if part_of(path.name) is not None and os.access(path, os.R_OK) and not path.is_dir():
            refuse_cut(path)


def load(lib: Library) -> None:
    """Have libggml load the plug-ins that are not linked into it.

    Raises:
        LibraryBroken: a plug-in that was named does not load, or there is no backend at all.
    """
    # a backend that libggml links is there without
    linked = {each.path for each in mapped_here()}
    for plugin in lib.found.plugins:
        if str(plugin.resolve()) in linked:
            continue
        if not lib.c.ggml_backend_load(str(plugin).encode()):
            open_file(plugin, lib.ffi.RTLD_LOCAL)
            raise LibraryBroken(f"{plugin} is no backend for this libggml or machine; give another")
    if not lib.found.plugins and (not registered(lib) or _absent(lib)):
        _not_damaged(lib)
        lib.c.ggml_backend_load_all_from_path(str(lib.found.folders[-1]).encode())
    if not registered(lib):
        why = "; ".join(silent(lib)) or "there is no libggml-cpu; give the folder of a whole build"
        raise LibraryBroken(f"no backend of {lib.found.directory} loads; {why}")


def silent(lib: Library) -> list[str]:
    """Return one line for each backend that did not load or has no device, with the reason."""
    files = [] if lib.found.plugins else _absent(lib)
    idle = [name for name, devices in registered(lib).items() if not devices and name != "rpc"]
    return [_why(lib, path) for path in files] + [
        f"backend {name} is loaded but sees no device: {_why_idle(name)}" for name in idle
    ]


def _why_idle(backend: str) -> str:
    if backend == "cuda":
        return cuda_driver.why_none()
    return vulkan_loader.why_none() if backend == "vulkan" else "check its driver"


def _why(lib: Library, path: Path) -> str:
    try:
        open_file(path, lib.ffi.RTLD_LOCAL)
    except LibraryBroken as error:
        return str(error)
    why = "it does not suit this machine"
    if "vulkan" in _names(path):
        why = vulkan_loader.why_none()
    return f"{path.name} can be opened, but does not register: {why}"
