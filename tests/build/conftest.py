"""A tiny stand-in for a llama.cpp checkout, and CMake run on it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

FILES = {
    "CMakeLists.txt": """
cmake_minimum_required(VERSION 3.14...3.28)
project("llama.cpp" C CXX)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_subdirectory(ggml)
add_subdirectory(src)
""",
    "ggml/CMakeLists.txt": """
cmake_minimum_required(VERSION 3.14...3.28)
project(ggml C CXX)
set(GGML_VERSION 9.8.7)
option(GGML_NATIVE "" ON)
option(GGML_AMX_TILE "" OFF)
option(GGML_CUDA "" OFF)
option(GGML_CUDA_GRAPHS "" ON)
add_subdirectory(src)
install(FILES ggml.h DESTINATION include)
""",
    "ggml/src/CMakeLists.txt": """
foreach(name ggml-base ggml-cpu ggml)
  add_library(${name} ${name}.cpp)
  set_target_properties(${name} PROPERTIES VERSION 9.8.7 SOVERSION 9)
endforeach()
target_link_libraries(ggml PUBLIC ggml-base ggml-cpu)
target_link_libraries(ggml-cpu PRIVATE ggml-base)
target_compile_options(ggml-cpu PRIVATE -DUPSTREAM_FLAG)
""",
    "ggml/ggml.h": "",
    "ggml/src/ggml-base.cpp": "const char * base() { return __FILE__; }\n",
    "ggml/src/ggml-cpu.cpp": "const char * base(); const char * cpu() { return base(); }\n",
    "ggml/src/ggml.cpp": "const char * cpu(); const char * ggml() { return cpu(); }\n",
    "src/CMakeLists.txt": "add_library(llama llama.cpp)\ntarget_link_libraries(llama ggml)\n",
    "src/llama.cpp": "const char * ggml(); const char * llama() { return ggml(); }\n",
    "include/llama.h": "",
    "tools/rpc/CMakeLists.txt": """
add_executable(ggml-rpc-server rpc-server.cpp)
target_link_libraries(ggml-rpc-server ggml)
""",
    "tools/rpc/rpc-server.cpp": "const char * ggml(); int main() { return ggml() == nullptr; }\n",
    "LICENSE": "MIT\n",
}

Cmake = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory laid out like llama.cpp that configures and builds in a second."""
    for name, text in FILES.items():
        file = tmp_path / "checkout" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "checkout"


@pytest.fixture
def cmake(tmp_path: Path) -> Cmake:
    """Configures the repository in tmp_path/build; options without -D, environment by keyword."""
    program = shutil.which("cmake")
    if program is None:
        pytest.skip("needs cmake")
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []

    def configure(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [program, "-S", str(REPOSITORY), "-B", str(tmp_path / "build"), *generator]
        command += [f"-D{option}" for option in options]
        env = {**os.environ, **environment}
        return subprocess.run(command, capture_output=True, text=True, env=env, check=False)

    return configure


@pytest.fixture
def stamp(tmp_path: Path) -> Callable[[], dict[str, str | None]]:
    """Reads the build.json of the last configuration."""
    return lambda: json.loads((tmp_path / "build" / "build.json").read_text())
