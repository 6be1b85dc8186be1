"""Options to configs: devices, buffer types and threads."""

from __future__ import annotations

from typing import Any

import pytest

from ggmlprobe.configs import configs_of, named_devices, only_device, pick_buft, pick_device
from ggmlprobe.errors import UnknownDevice, UsageError


def device(name: str, kind: str = "CPU", bufts: tuple[str, ...] = ("CPU",)) -> dict[str, Any]:
    return {
        "name": name, "description": name, "type": kind, "backend": name, "memory_free": 1,
        "memory_total": 2, "features": {}, "bufts": list(bufts), "endpoint": None,
    }  # fmt: skip


def ready(*devices: dict[str, Any], silent: tuple[str, ...] = ()) -> dict[str, Any]:
    """A child's description, as far as a device is chosen by it."""
    return {"devices": list(devices), "silent": list(silent)}


CPU = device("CPU", bufts=("CPU", "CPU_REPACK"))
BLAS, CUDA = device("BLAS", "ACCEL"), device("CUDA0", "GPU")
READY = {
    "library": {
        "path": "lib", "version": "0.25.3", "commit": None, "origin": "--lib", "stamp": None,
    },
    "devices": [CPU, BLAS],
}  # fmt: skip


def test_the_default_device_is_a_gpu_else_the_cpu() -> None:
    assert pick_device(ready(BLAS, CPU, CUDA), None) is CUDA
    assert pick_device(ready(BLAS, CPU), None) is CPU
    with pytest.raises(UnknownDevice, match="BLAS"):
        pick_device(ready(BLAS), None)


def test_a_device_is_found_by_name_in_any_case() -> None:
    assert pick_device(ready(CPU, BLAS, CUDA), "cuda0") is CUDA
    assert pick_device(ready(CPU, BLAS, CUDA), "blas") is BLAS
    with pytest.raises(UnknownDevice, match="no device CUDA1: this library has CPU, BLAS, CUDA0"):
        pick_device(ready(CPU, BLAS, CUDA), "CUDA1")
    with pytest.raises(UnknownDevice):
        pick_device(ready(CPU), "")


def test_a_device_that_is_not_there_is_said_with_why_its_backend_has_none() -> None:
    silent = "backend vulkan is loaded but sees no device: check its driver"
    with pytest.raises(UnknownDevice, match=f"this library has CPU; {silent}"):
        pick_device(ready(CPU, silent=(silent,)), "Vulkan0")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Vulkan0", "CPU, CUDA0; it has no Vulkan backend: give a build with -DGGML_VULKAN=ON"),
        ("rocm1", "CPU, CUDA0; it has no rocm backend: give a build with -DGGML_HIP=ON"),
        ("BLAS+CPU", "CPU, CUDA0; it has no BLAS backend: give a build with -DGGML_BLAS=ON"),
        ("CUDA1", "CPU, CUDA0"),
        ("Vulcan0", "CPU, CUDA0"),
    ],
)
def test_a_backend_that_is_not_built_in_is_said_with_the_option(name: str, said: str) -> None:
    with pytest.raises(UnknownDevice) as error:
        pick_device(ready(CPU, CUDA), name)
    assert str(error.value) == f"no device {name.partition('+')[0]}: this library has {said}"


def test_a_backend_that_does_not_load_is_not_called_absent() -> None:
    with pytest.raises(UnknownDevice) as error:
        pick_device(ready(CPU, silent=("libggml-vulkan.so needs libvulkan.so.1",)), "Vulkan0")
    assert str(error.value).endswith("this library has CPU; libggml-vulkan.so needs libvulkan.so.1")


def test_devices_with_a_plus_are_scheduled_together() -> None:
    whole = pick_device(ready(CPU, BLAS, CUDA), "cuda0+blas+cpu")
    assert (whole["name"], whole["type"]) == ("CUDA0+BLAS+CPU", "GPU+ACCEL+CPU")
    assert whole["bufts"] == ["CPU", "CPU_REPACK"]
    assert named_devices(ready(CPU, BLAS), "BLAS+CPU") == ["BLAS+CPU"]
    (config,) = configs_of(READY, "blas+cpu", ("cpu_repack",), (1,), None, {})
    assert (config.device.name, config.device.backend) == ("BLAS+CPU", "BLAS+CPU")
    assert config.buft == "CPU_REPACK"


def test_devices_that_cannot_be_scheduled() -> None:
    for name, why in (
        ("CPU+BLAS", r"--device CPU\+BLAS: the CPU device must stand last"),
        ("CUDA1+CPU", "no device CUDA1: this library has CPU, BLAS"),
        ("CPU+CPU", r"--device CPU\+CPU: CPU is there twice: name it once"),
        ("BLAS+cpu+CPU", r"--device BLAS\+CPU\+CPU: CPU is there twice"),
        ("BLAS+", r"--device BLAS\+: a name is empty"),
        ("+CPU", r"--device \+CPU: a name is empty"),
        ("", "--device '': a name is empty"),
    ):
        with pytest.raises(UnknownDevice, match=why) as error:
            pick_device(ready(CPU, BLAS), name)
        assert "\n" not in str(error.value)


def test_all_is_every_device_that_computes_alone() -> None:
    igpu = device("Vulkan0", "IGPU")
    assert named_devices(ready(CPU, BLAS, igpu, CUDA), "All") == ["CPU", "Vulkan0", "CUDA0"]


def test_a_server_is_every_device_of_it_and_of_no_other() -> None:
    servers = [device(f"RPC{i}", "GPU") | {"endpoint": f"h:{i // 2 + 1}"} for i in range(4)]
    assert named_devices(ready(CPU, *servers), "rpc://H:2") == ["RPC2", "RPC3"]
    assert named_devices(ready(CPU, *servers), "rpc2") == ["RPC2"]


def test_a_command_for_one_device_takes_no_more() -> None:
    assert only_device(None, "ab") is None
    assert only_device(("BLAS+CPU",), "ab") == "BLAS+CPU"
    for names in (("CPU", "CPU"), ("ALL",), ("rpc://h:1",)):
        with pytest.raises(UsageError, match="ab takes one device, and of this machine"):
            only_device(names, "ab")


def test_a_buffer_type_is_spelled_as_the_device_does() -> None:
    assert pick_buft(CPU, None) is None
    assert pick_buft(CPU, "cpu_repack") == "CPU_REPACK"
    with pytest.raises(UnknownDevice, match="no buffer type AMX: CPU has CPU, CPU_REPACK"):
        pick_buft(CPU, "AMX")


def configs(**changes: Any) -> list[Any]:
    given: dict[str, Any] = {
        "device_name": None, "bufts": (None,), "threads": (1,), "threads_batch": None, "env": {},
    }  # fmt: skip
    return configs_of(READY, *(given | changes).values())


def test_one_config() -> None:
    (config,) = configs(env={"GGML_X": None})
    assert (config.id, config.buft, config.threads, config.threads_batch) == ("c0", None, 1, 1)
    assert (config.device.name, config.library.version) == ("CPU", "0.25.3")
    assert config.env == {"GGML_X": None}


def test_threads_of_blocks_follow_those_of_width_one_unless_given() -> None:
    pairs = [(c.threads, c.threads_batch) for c in configs(threads=(1, 2))]
    assert pairs == [(1, 1), (2, 2)]
    pairs = [(c.threads, c.threads_batch) for c in configs(threads=(1, 2), threads_batch=(4, 8))]
    assert pairs == [(1, 4), (1, 8), (2, 4), (2, 8)]


def test_every_buffer_type_with_every_thread_count_has_an_id_of_its_own() -> None:
    made = configs(bufts=(None, "cpu_repack"), threads=(1, 2))
    assert [(c.id, c.buft, c.threads) for c in made] == [
        ("c0", None, 1), ("c1", None, 2), ("c2", "CPU_REPACK", 1), ("c3", "CPU_REPACK", 2),
    ]  # fmt: skip
