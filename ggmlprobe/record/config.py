"""What a result was computed with: library, device, settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ggmlprobe.model.record import ModelSettings


@dataclass(frozen=True)
class LibraryInfo:
    """The libggml that was probed."""

    path: str = field(metadata={"doc": "Directory or file, as it was given."})
    version: str | None = field(metadata={"doc": "ggml's version, where the library exports it."})
    commit: str | None = field(metadata={"doc": "ggml's commit, where the library exports it."})
    origin: str = field(
        metadata={"doc": "What named the library: --lib, GGMLPROBE_LIB, packaged or llama_cpp."}
    )
    stamp: Mapping[str, str] | None = field(
        default=None,
        metadata={"doc": "What ggmlprobe's own build wrote down: source, sha256, compiler, flags."},
    )
    files: list[str] = field(
        default_factory=list,
        metadata={
            "doc": "Names of its loaded files, the chosen backend's among them: "
            "libggml-cpu-haswell.so."
        },
    )
    identity: str | None = field(
        default=None,
        metadata={
            "doc": "Hash of those files and of the libllama beside them, of a file above 8 MiB of "
            "its size and time; a rebuild changes it."
        },
    )


@dataclass(frozen=True)
class DeviceRecord:
    """The ggml device that computed."""

    name: str = field(
        metadata={
            "doc": "ggml_backend_dev_name; the devices of a scheduler with + between, as their "
            "descriptions, backends and types."
        }
    )
    description: str = field(metadata={"doc": "ggml_backend_dev_description."})
    backend: str = field(metadata={"doc": "Name of the backend the device belongs to."})
    type: str = field(metadata={"doc": "ggml_backend_dev_type: CPU, GPU, IGPU or ACCEL."})
    memory_total: int | None = field(
        default=None, metadata={"doc": "Bytes, as ggml_backend_dev_memory tells them."}
    )
    features: Mapping[str, str] = field(
        default_factory=dict,
        metadata={
            "doc": "Every entry of ggml_backend_get_features; for CUDA also COMPUTE_CAPABILITY and "
            "SM_COUNT from the driver, for BLAS OPENBLAS_CONFIG and OPENBLAS_CORENAME, for "
            "Vulkan VULKAN_TYPE, VULKAN_API, VULKAN_DRIVER and VULKAN_VENDOR from its loader."
        },
    )
    endpoint: str | None = field(
        default=None,
        metadata={
            "doc": "host:port of the ggml-rpc-server it belongs to; what hardware it is there, the "
            "protocol does not tell."
        },
    )


@dataclass(frozen=True)
class Config:
    """Library, device and settings that a result was computed with."""

    id: str = field(metadata={"doc": "Name that results refer to: c0, c1, ..."})
    library: LibraryInfo = field(metadata={"doc": "The libggml that was probed."})
    device: DeviceRecord = field(metadata={"doc": "The device that computed."})
    buft: str | None = field(
        metadata={
            "doc": "Buffer type of the weights; null is the device's default, or what llama.cpp "
            "would choose where nodes are scheduled."
        }
    )
    threads: int = field(metadata={"doc": "Threads at width 1.", "minimum": 1})
    threads_batch: int = field(metadata={"doc": "Threads at widths above 1.", "minimum": 1})
    env: Mapping[str, str | None] = field(
        default_factory=dict,
        metadata={"doc": "Environment variables set for this config; null is one taken away."},
    )
    model: ModelSettings | None = field(
        default=None, metadata={"doc": "The model, for commands on whole models."}
    )
    arm: str | None = field(
        default=None,
        metadata={"doc": "Path that was forced, of `threshold`; null is the library's own choice."},
    )
