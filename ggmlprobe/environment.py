"""The machine and the software a run was made with, without anything that names its user."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import ggmlprobe
from ggmlprobe import system

# variables that ggml's backends, their drivers or their thread pools read
READ_BY_GGML = re.compile(r"^(GGML_|LLAMA_|CUDA_|HIP_|VK_|MESA_|OMP_|GOMP_|OPENBLAS_)")
# they decide which files the loader takes
READ_BY_LOADER = frozenset({"LD_LIBRARY_PATH", "LD_PRELOAD"})
CORE_FIELDS = re.compile(r"^(processor|physical id|core id)[ \t]*:[ \t]*(\d+)$", re.MULTILINE)
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS", re.IGNORECASE)


@dataclass(frozen=True)
class Environment:
    """The machine and the software around."""

    cpu: str = field(metadata={"doc": "Model name of the CPU."})
    cores_physical: int | None = field(
        metadata={"doc": "Physical cores behind the logical ones available, where known."}
    )
    cores_available: int = field(
        metadata={"doc": "Logical cores this process may run on.", "minimum": 1}
    )
    os: str = field(metadata={"doc": "Operating system and its version."})
    kernel: str = field(metadata={"doc": "Kernel name, release and architecture."})
    python: str = field(metadata={"doc": "Version of Python."})
    numpy: str | None = field(metadata={"doc": "Version of numpy."})
    ggmlprobe: str = field(metadata={"doc": "Version of ggmlprobe."})
    date: str = field(metadata={"doc": "Start of the run in UTC, ISO 8601."})
    governor: str | None = field(
        default=None, metadata={"doc": "Frequency governor of CPU 0, where readable."}
    )
    nvidia_driver: str | None = field(
        default=None, metadata={"doc": "Version of the NVIDIA kernel driver, where loaded."}
    )
    env: Mapping[str, str] = field(
        default_factory=dict,
        metadata={
            "doc": "Variables that ggml, its drivers or the loader read and that were set; "
            "the home directory is written ~, a secret (set)."
        },
    )


def collect_environment(environ: Mapping[str, str] = os.environ) -> Environment:
    """Describe this machine; takes milliseconds and imports nothing heavy.

    Args:
        environ: where to look for variables that ggml reads.
    """
    cpuinfo = _read("/proc/cpuinfo")
    available = system.cores()
    return Environment(
        cpu=cpu_model(cpuinfo) or platform.processor() or platform.machine(),
        cores_physical=physical_cores(cpuinfo, available),
        cores_available=len(available),
        os=_os_name(),
        kernel=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        numpy=_package_version("numpy"),
        ggmlprobe=ggmlprobe.__version__,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        governor=_read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or None,
        nvidia_driver=nvidia_version(_read("/proc/driver/nvidia/version")),
        env=ggml_variables(environ),
    )


def cpu_model(cpuinfo: str) -> str | None:
    """Model name in the text of /proc/cpuinfo (x86, ARM with a name, POWER, RISC-V), or None."""
    match = re.search(r"^(?:model name|Model|cpu|uarch)[ \t]*:[ \t]*(\S.*)$", cpuinfo, re.MULTILINE)
    return match.group(1).strip() if match else None


def physical_cores(cpuinfo: str, available: set[int]) -> int | None:
    """Distinct (physical id, core id) pairs among the available processors, or None if not told."""
    cores = set()
    for block in cpuinfo.split("\n\n"):
        fields = dict(CORE_FIELDS.findall(block))
        if "core id" in fields and int(fields.get("processor", -1)) in available:
            cores.add((fields.get("physical id"), fields["core id"]))
    return len(cores) or None


def nvidia_version(text: str) -> str | None:
    """Driver version in the text of /proc/driver/nvidia/version, or None."""
    match = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", text)
    return match.group(1) if match else None


def ggml_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that ggml, its drivers or the loader read; secrets and the home folder hidden."""
    return {
        name: "(set)" if SECRET.search(name) else without_home(value, environ)
        for name, value in sorted(environ.items())
        if READ_BY_GGML.match(name) or name in READ_BY_LOADER
    }


def without_home(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """The text with the user's home directory written ``~``."""
    home = environ.get("HOME", "").rstrip("/")
    return re.sub(rf"{re.escape(home)}(?=/|$|:)", "~", text) if home else text


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return f"{platform.system()} {platform.mac_ver()[0]}".strip()


def _package_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _read(path: str) -> str:
    """Text of a file of the kernel; empty where it is not there."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
