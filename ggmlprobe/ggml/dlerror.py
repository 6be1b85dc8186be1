"""What a file that cannot be opened lacks, in one line with the fix. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass

# ELF e_machine (System V ABI) by the names platform.machine() uses.
_MACHINES = {
    3: "i386",
    20: "ppc",
    21: "ppc64",
    22: "s390x",
    40: "arm",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
    258: "loongarch64",
}
_SAME_MACHINE = {"amd64": "x86_64", "arm64": "aarch64", "i686": "i386", "ppc64le": "ppc64"}
_MACH_O = {b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe"}
_ELF_HEADER = 20
_ELF64 = 2
_BIG_ENDIAN = 2

_ABSENT = re.compile(r"(?P<name>[^\s:]+): cannot open shared object file: No such file")
_VERSION = re.compile(
    r"version [`'](?P<version>\w+_[\w.]+)' not found(?: \(required by (?P<by>[^)]+)\))?"
)
_UNDEFINED = re.compile(r"undefined symbol: (?P<symbol>[^\s,]+)")
_NO_LIBRARY = ("invalid ELF header", "file too short", "not a dynamic", "cannot dynamically load")


@dataclass(frozen=True)
class Image:
    """What the first bytes of a file say it is: "elf", "mach-o", "pe", "text" or "other"."""

    format: str
    machine: str | None = None


def image(header: bytes) -> Image:
    """Tell a file's format and processor from its first 64 bytes."""
    if header[:4] == b"\x7fELF" and len(header) >= _ELF_HEADER:
        order = "big" if header[5] == _BIG_ENDIAN else "little"
        number = int.from_bytes(header[18:20], "big" if order == "big" else "little")
        return Image("elf", _MACHINES.get(number, f"machine {number}"))
    if header[:4] in _MACH_O:
        return Image("mach-o")
    if header[:2] == b"MZ":
        return Image("pe")
    text = bool(header) and all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in header)
    return Image("text" if text else "other")


def wrong_image(path: str, found: Image, system: str, machine: str) -> str | None:
    """Say why a file of this format cannot run here, or None if it may.

    Args:
        path: how the user knows the file.
        found: from image().
        system: platform.system().
        machine: platform.machine().
    """
    native = {"Linux": "elf", "Darwin": "mach-o", "Windows": "pe"}.get(system, found.format)
    here = _SAME_MACHINE.get(machine.lower(), machine.lower())
    if found.format in {"text", "other"}:
        kind = "text" if found.format == "text" else "no shared library"
        return f"{path} is {kind}, not a shared library; give the folder that holds libggml.so"
    if found.format != native:
        return f"{path} is made for another system ({found.format}); give a build for {system}"
    if found.machine and found.machine != here:
        return (
            f"{path} is built for {found.machine}, this machine is {here}; give a build for {here}"
        )
    return None


def missing_name(message: str) -> str | None:
    """Return the file name dlopen could not find, if that is what the message says."""
    match = _ABSENT.search(message)
    return match["name"] if match else None


def _missing_library(name: str) -> str:
    """Return how to get a library that dlopen did not find."""
    stem, _, version = name.partition(".so")
    cuda = version.lstrip(".").split(".")[0]
    if stem in {"libcuda", "libnvidia-ml"}:
        return "it comes with the NVIDIA driver: install the driver, or give a build without CUDA"
    if stem in {"libcublas", "libcublasLt", "libcudart", "libnccl", "libnvrtc"}:
        which = f"CUDA {cuda}" if cuda else "CUDA"
        return f"install the {which} runtime and put its folder into LD_LIBRARY_PATH"
    if stem in {"libamdhip64", "librocblas", "libhipblas", "libhipblaslt"}:
        return "install ROCm and put its folder into LD_LIBRARY_PATH"
    if stem == "libvulkan":
        return "install the Vulkan loader (Debian: libvulkan1)"
    if stem in {"libgomp", "libomp"}:
        return (
            f"install the OpenMP runtime (Debian: {'libgomp1' if stem == 'libgomp' else 'libomp5'})"
        )
    if "ggml" in stem:
        return "it belongs beside the others: give the folder of the whole build"
    return "install it, or put its folder into LD_LIBRARY_PATH"


def explain(path: str, message: str, glibc: str = "") -> str:
    """Turn dlopen's message into one line that names what is missing and the fix.

    Args:
        path: the file that was opened.
        message: the text of dlerror, as glibc or musl write it.
        glibc: this system's version, "2.36", where known.
    """
    text = " ".join(message.split())
    absent = missing_name(text)
    if absent:
        if absent == path:
            return f"{path}: no such file; give the folder that holds libggml.so"
        return f"{path} needs {absent}, which is not here: {_missing_library(absent)}"
    version = _VERSION.search(text)
    if version:
        here = (
            f", this system has {glibc}"
            if glibc and version["version"].startswith("GLIBC_")
            else ""
        )
        by = version["by"] or path
        return (
            f"{by} is built for a newer system (needs {version['version']}{here}): "
            "give a build made on this system or an older one"
        )
    undefined = _UNDEFINED.search(text)
    if undefined:
        return (
            f"{path} needs the symbol {undefined['symbol']}, which no library beside it has: "
            "give a folder whose files come from one build"
        )
    if "wrong ELF class" in text:
        return f"{path} is built for another word size ({text.rsplit(' ', 1)[-1]}): give a 64-bit build"
    if any(each in text for each in _NO_LIBRARY):
        return f"{path} is damaged or no shared library: give the folder that holds libggml.so"
    return f"{path} cannot be opened: {text}"
