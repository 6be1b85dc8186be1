"""What the CUDA driver tells, on a stand-in for it: the real one needs an NVIDIA GPU."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ggmlprobe.ggml.cuda_driver import properties, why_none

# device 1 of two: compute capability 12.0, 84 SMs; device 0 tells nothing
STAND_IN = """
#include <stdlib.h>
int cuInit(unsigned int flags) { return getenv("STANDIN_INIT") ? atoi(getenv("STANDIN_INIT")) : 0; }
int cuDeviceGetCount(int *count) { *count = atoi(getenv("STANDIN_COUNT")); return 0; }
int cuGetErrorName(int error, const char **name) { *name = "CUDA_ERROR_X"; return error != 100; }
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


def test_why_there_is_no_device_without_a_driver() -> None:
    assert why_none("libcuda-that-is-not-there.so.1").startswith(
        "it needs libcuda-that-is-not-there.so.1, which is not here"
    )
    assert "install the driver" in why_none("/nonexistent/libcuda.so.1")


@pytest.mark.parametrize(
    ("init", "count", "says"),
    [
        ("100", "0", "says CUDA_ERROR_X: check the NVIDIA driver"),
        ("803", "0", "says error 803: check the NVIDIA driver"),
        ("0", "0", "has none: check CUDA_VISIBLE_DEVICES"),
        ("0", "2", "has 2: the driver may be older than this build's CUDA needs"),
    ],
)
def test_why_there_is_no_device_with_one(
    driver: str, monkeypatch: pytest.MonkeyPatch, init: str, count: str, says: str
) -> None:
    monkeypatch.setenv("STANDIN_INIT", init)
    monkeypatch.setenv("STANDIN_COUNT", count)
    assert says in why_none(driver)
