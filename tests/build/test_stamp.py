"""build.json says what was built, and the installed files carry no trace of where."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest


def git(directory: Path, *arguments: str) -> str:
    if shutil.which("git") is None:
        pytest.skip("needs git")
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    command = ["git", *identity, "-C", str(directory), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit_all(directory: Path) -> str:
    git(directory, "init", "--quiet")
    git(directory, "add", ".")
    git(directory, "commit", "--quiet", "--message", "start")
    return git(directory, "rev-parse", "--short=9", "HEAD")


def configured(cmake, checkout: Path, *options: str) -> None:
    result = cmake(f"GGMLPROBE_SOURCE_DIR={checkout}", *options)
    assert result.returncode == 0, result.stderr


def test_checkout_commit(cmake, checkout, stamp):
    commit = commit_all(checkout)
    configured(cmake, checkout)
    assert stamp()["commit"] == commit
    (checkout / "LICENSE").write_text("changed")
    configured(cmake, checkout)
    assert stamp()["commit"] == f"{commit}-dirty"


def test_a_surrounding_tree_lends_no_commit(cmake, checkout, stamp):
    commit_all(checkout.parent)
    configured(cmake, checkout)
    assert stamp()["commit"] == "unknown"


def test_checkout_stamp(cmake, checkout, stamp):
    configured(cmake, checkout, "GGML_CUDA_GRAPHS=ON", "GGML_NATIVE=ON", 'GGML_OTHER=a"b')
    written = stamp()
    assert written["sdist"] is written["sdist_version"] is written["sha256"] is None
    assert written["ggml_version"] == "9.8.7"
    assert written["build_type"] == "Release"
    assert re.fullmatch(r"(GNU|Clang|AppleClang) [\d.]+", written["compiler"])
    assert "-O3" in written["flags"].split()
    # GGML_CUDA is off, so what it would have used is not part of this build
    assert written["cmake_options"] == '-DGGML_NATIVE=ON -DGGML_OTHER=a"b -DGGML_RPC=ON'


def dynamic(library: Path, tag: str) -> list[str]:
    if shutil.which("readelf") is None:
        pytest.skip("needs readelf")
    text = subprocess.run(
        ["readelf", "-d", str(library)], check=True, capture_output=True, text=True
    ).stdout
    return re.findall(rf"\({tag}\).*\[(.*)\]", text)


def test_install(cmake, checkout, tmp_path):
    configured(cmake, checkout)
    build = tmp_path / "build"
    subprocess.run(["cmake", "--build", str(build)], check=True, capture_output=True)
    install = ["cmake", "--install", str(build), "--prefix", str(tmp_path / "out")]
    subprocess.run(install, check=True, capture_output=True)
    libraries = {"libggml-base.so", "libggml-cpu.so", "libggml.so", "libllama.so"}
    installed = {path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*.*")}
    texts = {"build.json", "LICENSE.llama.cpp", "include/llama.h"}
    native = {
        "sampler",
        "vulkan_labels",
        *(f"interpose_{name}" for name in ("cuda", "mul_mat", "sgemm", "vec_dot")),
    }
    libraries |= {f"libggmlprobe_{name}.so" for name in native}
    assert installed == {Path("lib") / name for name in libraries | texts}
    for name in libraries:
        library = tmp_path / "out" / "lib" / name
        assert not library.is_symlink()
        assert dynamic(library, "SONAME") == [name]
        assert dynamic(library, "RUNPATH") + dynamic(library, "RPATH") == ["$ORIGIN"]
    assert b"ggml/src/ggml-base.cpp" in (tmp_path / "out" / "lib" / "libggml-base.so").read_bytes()
    assert str(checkout).encode() not in (tmp_path / "out/lib/libggml-base.so").read_bytes()


@pytest.mark.parametrize("option", [(), ("GGML_RPC=OFF",)])
def test_the_server_is_installed_beside_the_libraries(cmake, checkout, tmp_path, option):
    configured(cmake, checkout, *option)
    build = tmp_path / "build"
    subprocess.run(["cmake", "--build", str(build)], check=True, capture_output=True)
    install = ["cmake", "--install", str(build), "--prefix", str(tmp_path / "out")]
    subprocess.run(install, check=True, capture_output=True)
    server = tmp_path / "out" / "lib" / "ggml-rpc-server"
    assert server.exists() is not bool(option)
    if not option:
        subprocess.run([server], check=True)
        assert dynamic(server, "RUNPATH") + dynamic(server, "RPATH") == ["$ORIGIN"]


def test_without_llama(cmake, checkout, tmp_path):
    configured(cmake, checkout, "GGMLPROBE_LLAMA=OFF")
    build = tmp_path / "build"
    subprocess.run(["cmake", "--build", str(build)], check=True, capture_output=True)
    assert not list(build.rglob("libllama*"))
    assert list(build.rglob("libggml-cpu*"))


def test_path_with_a_tilde(cmake, checkout, stamp):
    result = cmake(f"GGMLPROBE_SOURCE_DIR=~/{checkout.name}", HOME=str(checkout.parent))
    assert result.returncode == 0, result.stderr
    assert stamp()["ggml_version"] == "9.8.7"
