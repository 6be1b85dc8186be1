"""Compute capability and SM count, on a stand-in for the CUDA driver, which needs an NVIDIA GPU."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ggmlprobe.ggml.cuda_driver import properties

# device 1 of two: compute capability 12.0, 84 SMs; device 0 tells nothing
STAND_IN = """
int cuInit(unsigned int flags) { return flags; }
int cuDeviceGet(int *device, int ordinal) { *device = 70 + ordinal; return ordinal > 1; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? 12 : attribute == 76 ? 0 : attribute == 16 ? 84 : -1;
    return device != 71;
}
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("driver")
    (folder / "cuda.c").write_text(STAND_IN)
    library = folder / "libcuda.so.1"
    build = ["cc", "-shared", "-fPIC", "-o", str(library), str(folder / "cuda.c")]
    subprocess.run(build, check=True)
    return str(library)


def test_a_device_by_ggmls_number(driver: str) -> None:
    told = {"COMPUTE_CAPABILITY": "12.0", "SM_COUNT": "84"}
    assert properties("CUDA1", driver) == told


@pytest.mark.parametrize("name", ["CUDA0", "CUDA2", "CPU", "Vulkan1", "CUDA"])
def test_no_word_where_the_driver_has_none(name: str, driver: str) -> None:
    assert properties(name, driver) == {}


def test_no_driver_is_no_error() -> None:
    assert properties("CUDA1", "libcuda-that-is-not-there.so.1") == {}
