"""GGML_VULKAN=ON: what it lacks is said in one line, and headers of 2023 are old but enough.

Glslc, headers and loader are stand-ins here: the real ones would compile shaders for minutes.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

DISABLED = "CMAKE_DISABLE_FIND_PACKAGE"
BACKEND = """
option(GGML_VULKAN "" OFF)
find_package(Vulkan COMPONENTS glslc REQUIRED)
find_package(SPIRV-Headers CONFIG REQUIRED)
add_library(ggml-vulkan ggml-vulkan.cpp)
target_include_directories(ggml-vulkan PRIVATE ${Vulkan_INCLUDE_DIR})
target_link_libraries(ggml-vulkan PRIVATE ggml-base)
"""
# as ggml_vk_instance_init uses the extension
USE = """
#include <vulkan/vulkan_core.h>
#include <vector>
const char * base();
const void * vulkan() {
    unsigned on = 1;
    std::vector<vk::LayerSettingEXT> settings = {
        { "layer", "setting", vk::LayerSettingTypeEXT::eBool32, 1, &on },
    };
    static vk::LayerSettingsCreateInfoEXT info(settings);
    return base() ? &info : nullptr;
}
"""
# of 1.3.239, which lacks the extension, and of 1.3.272, which has it
OLD = "#define VK_HEADER_VERSION 239\n"
NEW = """#define VK_HEADER_VERSION 272
#define VK_EXT_layer_settings 1
#include <vector>
namespace vk {
enum class LayerSettingTypeEXT { eBool32 };
struct LayerSettingEXT { const char *a, *b; LayerSettingTypeEXT c; unsigned d; const void *e; };
struct LayerSettingsCreateInfoEXT { LayerSettingsCreateInfoEXT(std::vector<LayerSettingEXT> &) {} };
}
"""


@pytest.fixture
def sdk(tmp_path: Path) -> Path:
    """A Vulkan SDK as far as CMake looks at it."""
    files = {
        "include/vulkan/vulkan.h": "",
        "include/vulkan/vulkan_core.h": OLD,
        "lib/libvulkan.so": "",
        "bin/glslc": "#!/bin/sh\n",
        "share/cmake/SPIRV-Headers/SPIRV-HeadersConfig.cmake": "",
    }
    for name, text in files.items():
        file = tmp_path / "sdk" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "sdk/bin/glslc").chmod(0o755)
    return tmp_path / "sdk"


@pytest.mark.parametrize(
    ("disabled", "packages"),
    [
        (["Vulkan", "SPIRV-Headers"], "libvulkan-dev glslc spirv-headers"),
        (["Vulkan"], "libvulkan-dev glslc"),
        (["SPIRV-Headers"], "spirv-headers"),
    ],
)
def test_what_is_missing_is_named(cmake, sdk, disabled, packages):
    options = [f"{DISABLED}_{name}=ON" for name in disabled]
    result = cmake("GGML_VULKAN=ON", *options, VULKAN_SDK=str(sdk))
    assert result.returncode != 0
    (line,) = [line for line in result.stderr.splitlines() if "ggmlprobe: " in line]
    assert f"apt install {packages}, or set VULKAN_SDK" in line


@pytest.mark.parametrize("header", [OLD, NEW], ids=["old", "new"])
def test_headers_of_either_age_compile(cmake, checkout, sdk, tmp_path, header):
    (sdk / "include/vulkan/vulkan_core.h").write_text(header)
    (checkout / "ggml/src/ggml-vulkan.cpp").write_text(USE)
    with (checkout / "ggml/src/CMakeLists.txt").open("a") as lists:
        lists.write(BACKEND)
    source = f"GGMLPROBE_SOURCE_DIR={checkout}"
    result = cmake(source, "GGML_VULKAN=ON", VULKAN_SDK=str(sdk))
    assert result.returncode == 0, result.stderr
    build = ["cmake", "--build", str(tmp_path / "build"), "--target", "ggml-vulkan", "ggml-cpu"]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    commands = (tmp_path / "build/compile_commands.json").read_text().splitlines()
    lines = [line for line in commands if '"command"' in line and "layer_settings" in line]
    assert all("ggml-vulkan.cpp" in line for line in lines)
    assert bool(lines) == (header == OLD)
