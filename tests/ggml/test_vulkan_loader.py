"""What Vulkan's loader says of lavapipe and of drivers that misbehave, through ggmlprobe too."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ggmlprobe.errors import LibraryBroken
from ggmlprobe.ggml import vulkan_loader
from ggmlprobe.ggml.vulkan_loader import PhysicalDevice, ask, physical_devices, properties, why_none
from ggmlprobe.worker import supervisor
from ggmlprobe.worker.protocol import Spec

Cli = Callable[..., subprocess.CompletedProcess[str]]
BROKEN = {
    "crashes": "void __attribute__((constructor)) at_load(void) { __builtin_trap(); }",
    "hangs": "#include <unistd.h>\nvoid __attribute__((constructor)) at_load(void) { pause(); }",
}


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    """Forget what an earlier test was told."""
    ask.cache_clear()
    yield
    ask.cache_clear()


@pytest.fixture
def lavapipe(vulkan_env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make lavapipe the one driver."""
    for name, value in vulkan_env.items():
        monkeypatch.setenv(name, value)


def only_driver(monkeypatch: pytest.MonkeyPatch, icd: Path) -> None:
    for name in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        monkeypatch.setenv(name, str(icd))


@pytest.fixture
def broken(request: Any, lavapipe: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a driver that is written here, and does nothing but harm, the one there is."""
    (tmp_path / "icd.c").write_text(BROKEN[request.param])
    library = tmp_path / "libicd.so"
    build = ["cc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "icd.c")]
    subprocess.run(build, check=True)
    icd = {"library_path": str(library), "api_version": "1.3.0"}
    (tmp_path / "icd.json").write_text(json.dumps({"file_format_version": "1.0.0", "ICD": icd}))
    only_driver(monkeypatch, tmp_path / "icd.json")


@pytest.mark.usefixtures("lavapipe")
def test_lavapipe_is_described() -> None:
    (device,) = ask()
    assert device.name.startswith("llvmpipe (LLVM ")
    assert device.type == "CPU"
    assert device.api.split(".")[:2] >= ["1", "2"]
    assert device.driver.startswith("llvmpipe Mesa ")
    # VK_VENDOR_ID_MESA
    assert device.vendor == "0x10005"
    told = properties(device.name)
    assert told["VULKAN_DRIVER"] == device.driver
    assert sorted(told) == ["VULKAN_API", "VULKAN_DRIVER", "VULKAN_TYPE", "VULKAN_VENDOR"]
    assert properties("another device") == {}


def test_two_devices_of_a_name_are_not_mixed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (PhysicalDevice("X", "discrete GPU", "1.3.0", text, "0x1002") for text in "ab")
    monkeypatch.setattr(vulkan_loader, "ask", lambda: [old, new])
    assert properties("X") == {}
    monkeypatch.setattr(vulkan_loader, "ask", lambda: [old, old])
    assert properties("X")["VULKAN_DRIVER"] == "a"


def test_no_loader_is_said_with_the_fix() -> None:
    with pytest.raises(LibraryBroken, match=r"no libno\.so\.1: install the Vulkan loader"):
        physical_devices("libno.so.1")


@pytest.mark.parametrize("broken", ["crashes"], indirect=True)
@pytest.mark.usefixtures("broken")
def test_a_driver_that_crashes_takes_nothing_with_it() -> None:
    assert why_none().startswith("a Vulkan driver ends the process")
    assert properties("llvmpipe") == {}


@pytest.mark.parametrize("broken", ["hangs"], indirect=True)
@pytest.mark.usefixtures("broken")
def test_a_driver_that_hangs_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vulkan_loader, "SECONDS", 1.0)
    assert why_none().startswith("a Vulkan driver hangs")


@pytest.mark.parametrize(
    ("broken", "ended"), [("crashes", "SIG[A-Z]+"), ("hangs", "TIMEOUT")], indirect=["broken"]
)
@pytest.mark.usefixtures("broken")
def test_a_driver_that_ends_libggml_is_suspected(
    foreign_libs: dict[str, Path], monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    monkeypatch.setattr(supervisor, "START_SECONDS", 10.0)
    worker = supervisor.Worker(Spec(str(foreign_libs["vulkan"])), 60.0)
    with pytest.raises(LibraryBroken) as error:
        worker.ready()
    line = rf"loading the library ended in {ended} while opening its backends cpu, vulkan: .*; "
    suspected = r"a Vulkan driver may be at fault: name another with VK_DRIVER_FILES"
    assert re.fullmatch(line + suspected, str(error.value))


def test_a_gpu_that_ggml_does_not_see_is_no_matter_of_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = PhysicalDevice("X", "discrete GPU", "1.3.0", "", "0x1002")
    monkeypatch.setattr(vulkan_loader, "ask", lambda: [gpu])
    assert why_none({}) == "Vulkan has device 0, X, type discrete GPU: check the driver"


def unseen(cli: Cli, lib: Path, env: dict[str, str]) -> str:
    """What `ggmlprobe devices` says of the Vulkan backend without a device."""
    done = cli("devices", "--lib", lib, env=env)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("not loaded: ")]
    assert "vulkan" in line
    return line


def test_devices_names_the_variable(
    cli: Cli, foreign_libs: dict[str, Path], vulkan_env: dict[str, str]
) -> None:
    lib = foreign_libs["vulkan"]
    drivers = {name: value for name, value in vulkan_env.items() if name.startswith("VK_")}
    line = unseen(cli, lib, drivers)
    assert "Vulkan has device 0, llvmpipe (LLVM " in line
    assert line.endswith("type CPU, which ggml skips: set GGML_VK_VISIBLE_DEVICES=0")
    done = cli("op", "mul_mat", "--lib", lib, "--device", "Vulkan0", env=drivers)
    assert done.returncode == 2
    assert done.stderr.strip().endswith(line.removeprefix("not loaded: "))

    shown = cli("devices", "--lib", lib, env=drivers | {"GGML_VK_VISIBLE_DEVICES": "0"}).stdout
    assert "Vulkan0: llvmpipe (LLVM " in shown
    assert "VULKAN_TYPE=CPU VULKAN_API=1." in shown
    assert "not loaded" not in shown


def test_a_baseline_without_the_variable_is_said(
    cli: Cli, foreign_libs: dict[str, Path], vulkan_env: dict[str, str]
) -> None:
    command = ("op", "mul_mat", "--lib", foreign_libs["vulkan"], "--device", "Vulkan0")
    done = cli(*command, "--set-env", f"{vulkan_loader.VISIBLE}=5", env=vulkan_env)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    fix = "take it out of --set-env and export it"
    assert line.endswith(f"; --set-env runs a baseline without {vulkan_loader.VISIBLE}: {fix}")
    # another variable has no part in it
    without = {name: value for name, value in vulkan_env.items() if name != vulkan_loader.VISIBLE}
    done = cli(*command, "--set-env", "GGML_CPU_TILED_MM=0", env=without)
    assert "type CPU, which ggml skips: set" in done.stderr
    assert "--set-env" not in done.stderr


@pytest.mark.parametrize("named", ["5", ""])
def test_a_number_that_is_no_device(
    cli: Cli, foreign_libs: dict[str, Path], vulkan_env: dict[str, str], named: str
) -> None:
    line = unseen(cli, foreign_libs["vulkan"], vulkan_env | {vulkan_loader.VISIBLE: named})
    assert (
        f"GGML_VK_VISIBLE_DEVICES={named} names no device of Vulkan's, which has device 0" in line
    )


def test_no_driver(
    cli: Cli, foreign_libs: dict[str, Path], vulkan_env: dict[str, str], tmp_path: Path
) -> None:
    none = dict.fromkeys(("VK_DRIVER_FILES", "VK_ICD_FILENAMES"), str(tmp_path / "none.json"))
    line = unseen(cli, foreign_libs["vulkan"], vulkan_env | none)
    assert "Vulkan has no device: install a driver" in line
