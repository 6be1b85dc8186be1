"""Everything that can be missing at build time is said in one line with the fix."""

from __future__ import annotations

import ctypes.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ARCHIVE = "llama_cpp_python-0.3.36.tar.gz"


def error_line(result: subprocess.CompletedProcess[str]) -> str:
    """The one line of ours in what a failed configuration printed."""
    assert result.returncode != 0
    lines = [line for line in result.stderr.splitlines() if "ggmlprobe: " in line]
    assert len(lines) == 1, result.stderr
    return lines[0]


@pytest.mark.parametrize(
    ("variable", "name", "package"), [("CC", "C", "gcc"), ("CXX", "C++", "g++")]
)
def test_missing_compiler(cmake, variable, name, package):
    line = error_line(cmake(**{variable: "/nonexistent/compiler"}))
    assert f"no {name} compiler" in line
    assert f"{variable}=/nonexistent/compiler" in line
    assert f"apt install {package}" in line


def test_no_compiler_at_all(cmake, tmp_path):
    for tool in ("cmake", "ninja", "make", "uname"):
        if path := shutil.which(tool):
            (tmp_path / tool).symlink_to(path)
    line = error_line(cmake(PATH=str(tmp_path), CC="", CXX=""))
    assert "no C compiler; install one" in line


def test_compiler_option_that_is_not_there(cmake):
    line = error_line(cmake("CMAKE_CXX_COMPILER=/nonexistent/compiler"))
    assert "give the path of a C++ compiler" in line


def test_blas_that_is_not_there(cmake):
    options = ("GGML_BLAS=ON", "GGML_BLAS_VENDOR=OpenBLAS")
    line = error_line(cmake(*options, "CMAKE_DISABLE_FIND_PACKAGE_BLAS=ON"))
    assert "found no BLAS (GGML_BLAS_VENDOR=OpenBLAS)" in line
    assert "apt install libopenblas-dev" in line


def test_blas_without_pkg_config(cmake, tmp_path):
    (tmp_path / "FindBLAS.cmake").write_text("set(BLAS_FOUND TRUE)\n")
    (tmp_path / "FindPkgConfig.cmake").write_text("set(PKG_CONFIG_FOUND FALSE)\n")
    line = error_line(cmake("GGML_BLAS=ON", f"CMAKE_MODULE_PATH={tmp_path}"))
    assert "needs pkg-config" in line
    assert "apt install pkg-config" in line


def test_cuda_without_nvcc(cmake):
    line = error_line(cmake("GGML_CUDA=ON", CUDACXX="/nonexistent/nvcc"))
    assert "needs nvcc" in line
    assert "CUDACXX" in line


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    """A toolkit of nvcc, headers and runtime alone, as some distributions split it."""
    made = tmp_path / "cuda"
    for directory in ("bin", "include", "lib64"):
        (made / directory).mkdir(parents=True)
    release = "echo 'Cuda compilation tools, release 13.0, V13.0.88'"
    (made / "bin" / "nvcc").write_text(f"#!/bin/sh\n{release}\necho '#$ TOP={made}'\n")
    (made / "bin" / "nvcc").chmod(0o755)
    (made / "include" / "cuda_runtime.h").write_text("#define CUDART_VERSION 13000\n")
    (made / "lib64" / "libcudart.so").write_text("")
    return made


def test_cuda_without_cublas(cmake, toolkit):
    if ctypes.util.find_library("cublas"):
        pytest.skip("the system has cuBLAS")
    options = [f"CUDAToolkit_ROOT={toolkit}", "CUDA_cublas_LIBRARY=CUDA_cublas_LIBRARY-NOTFOUND"]
    python = f"Python_EXECUTABLE={sys.executable}"
    line = error_line(cmake("GGML_CUDA=ON", *options, python, CUDACXX=str(toolkit / "bin/nvcc")))
    assert "needs cuBLAS 13" in line
    assert "pip install 'nvidia-cublas==13.0.*'" in line


def test_cuda_without_a_driver_to_link(cmake, toolkit):
    if ctypes.util.find_library("cuda"):
        pytest.skip("the system has the driver")
    for name in ("cublas", "cublasLt"):
        (toolkit / "lib64" / f"lib{name}.so").write_text("")
    options = [f"CUDAToolkit_ROOT={toolkit}", f"CUDA_cublas_LIBRARY={toolkit}/lib64/libcublas.so"]
    options.append("CUDA_cuda_driver_LIBRARY=CUDA_cuda_driver_LIBRARY-NOTFOUND")
    line = error_line(cmake("GGML_CUDA=ON", *options, CUDACXX=str(toolkit / "bin/nvcc")))
    assert "found no libcuda.so (driver or stub) to link" in line
    assert "add -DGGML_CUDA_NO_VMM=ON" in line


def test_source_dir_that_does_not_exist(cmake):
    line = error_line(cmake("GGMLPROBE_SOURCE_DIR=/nonexistent/llama.cpp"))
    assert "/nonexistent/llama.cpp is no llama.cpp checkout" in line


@pytest.mark.parametrize("missing", ["ggml/CMakeLists.txt", "src/CMakeLists.txt", "CMakeLists.txt"])
def test_source_dir_that_is_no_checkout(cmake, checkout, missing):
    (checkout / missing).unlink()
    line = error_line(cmake(f"GGMLPROBE_SOURCE_DIR={checkout}"))
    assert f"no {missing} in it" in line
    assert "give the directory" in line


def test_corrupt_cache_file(cmake, tmp_path):
    (tmp_path / ARCHIVE).write_bytes(b"truncated")
    line = error_line(cmake(f"GGMLPROBE_CACHE_DIR={tmp_path}"))
    assert f"{tmp_path / ARCHIVE} has sha256" in line
    assert "832db0699007" in line
    assert "delete it and build again" in line


def stand_in_python(directory: Path, *, has_pip: bool, archive: bytes | None) -> str:
    """An interpreter whose `pip download` delivers the given bytes, or fails."""
    script = directory / "python"
    payload = directory / "payload"
    payload.write_bytes(archive or b"")
    deliver = f'cp "{payload}" "$dest/{ARCHIVE}"' if archive is not None else "exit 1"
    script.write_text(f"""#!/bin/sh
case "$*" in
  *"pip --version") exit {0 if has_pip else 1} ;;
  *"pip download"*)
    while [ "$1" != --dest ]; do shift; done
    dest=$2
    echo "ERROR: no network" >&2
    {deliver} ;;
  *) exec {sys.executable} "$@" ;;
esac
""")
    script.chmod(0o755)
    return f"Python_EXECUTABLE={script}"


def test_no_pip(cmake, tmp_path):
    python = stand_in_python(tmp_path, has_pip=False, archive=None)
    line = error_line(cmake(python, f"GGMLPROBE_CACHE_DIR={tmp_path / 'cache'}"))
    assert "has no pip" in line
    assert "install pip" in line


def test_download_fails(cmake, tmp_path):
    python = stand_in_python(tmp_path, has_pip=True, archive=None)
    line = error_line(cmake(python, f"GGMLPROBE_CACHE_DIR={tmp_path / 'cache'}"))
    assert "ERROR: no network" in line
    assert f"put {ARCHIVE} into {tmp_path / 'cache'}" in line
    assert list((tmp_path / "cache").iterdir()) == []


def test_download_with_other_contents_never_gets_the_final_name(cmake, tmp_path):
    python = stand_in_python(tmp_path, has_pip=True, archive=b"something else")
    line = error_line(cmake(python, f"GGMLPROBE_CACHE_DIR={tmp_path / 'cache'}"))
    assert "has sha256" in line
    assert not (tmp_path / "cache" / ARCHIVE).exists()


def test_cache_follows_xdg(cmake, tmp_path):
    (tmp_path / "ggmlprobe").mkdir()
    (tmp_path / "ggmlprobe" / ARCHIVE).write_bytes(b"truncated")
    line = error_line(cmake(XDG_CACHE_HOME=str(tmp_path)))
    assert str(tmp_path / "ggmlprobe" / ARCHIVE) in line
