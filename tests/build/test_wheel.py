"""What is installed is what the source tree says must be, and holds no path of where it was built.

The rules are pure functions over names and ELF facts, so that each is tried on a planted fault.
"""

from __future__ import annotations

import importlib.metadata
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

import ggmlprobe

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads ELF files")

SOURCE = Path(__file__).parents[2] / "ggmlprobe"
LIB = "ggmlprobe/lib/"
SERVER = "ggml-rpc-server"
NATIVE = (
    "sampler",
    "vulkan_labels",
    "interpose_cuda",
    "interpose_mul_mat",
    "interpose_sgemm",
    "interpose_vec_dot",
)
LIBRARIES = {
    *(f"lib{name}.so" for name in ("ggml", "ggml-base", "ggml-cpu", "llama")),
    *(f"libggmlprobe_{name}.so" for name in NATIVE),
}
BESIDE = re.compile(rf"lib[\w-]+\.so|build\.json|LICENSE\.llama\.cpp|include/[\w-]+\.h|{SERVER}")
METADATA = re.compile(r"ggmlprobe-[\w.]+\.dist-info/(?:[\w.]+|licenses/LICENSE)")
# an absolute path in a binary; those of the system are no trace of where it was built
PATH = re.compile(rb"(?<![\w./+-])/[\w.+-]+/[\w./+-]+")
SYSTEM = (b"/proc/", b"/sys/", b"/dev/", b"/lib/", b"/lib64/")


@dataclass(frozen=True)
class Elf:
    """A shared library or program: what its dynamic section says, and the paths in it."""

    soname: str | None
    needed: tuple[str, ...]
    search: tuple[str, ...]
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Package:
    """An installed package: names by mode, headers with what they include, ELF files."""

    modes: dict[str, int]
    includes: dict[str, set[str]]
    elfs: dict[str, Elf]


def elf(path: Path) -> Elf:
    """Read an ELF file."""
    found: dict[str, list[str]] = {}
    with path.open("rb") as file:
        for section in ELFFile(file).iter_sections():
            for tag in section.iter_tags() if isinstance(section, DynamicSection) else ():
                name = tag.entry.d_tag.removeprefix("DT_").lower()
                found.setdefault(name, []).append(getattr(tag, name, ""))
    search = [entry for tag in ("runpath", "rpath") for path in found.get(tag, ())
              for entry in path.split(":")]  # fmt: skip
    paths = {each.decode() for each in PATH.findall(path.read_bytes())
             if not each.startswith(SYSTEM)}  # fmt: skip
    soname = found.get("soname", [None])[0]
    return Elf(soname, tuple(found.get("needed", ())), tuple(search), tuple(sorted(paths)))


def wrong_names(package: Package, source: set[str]) -> list[str]:
    """Files that are missing, or that have no business in the package."""
    names = set(package.modes)
    needed = source | {LIB + name for name in (*LIBRARIES, "build.json", "LICENSE.llama.cpp")}
    foreign = {
        name for name in names - needed
        if not METADATA.fullmatch(name)
        and not (name.startswith(LIB) and BESIDE.fullmatch(name.removeprefix(LIB)))
    }  # fmt: skip
    licences = {name for name in names if name.endswith(".dist-info/licenses/LICENSE")}
    return [
        *(f"missing: {name}" for name in sorted(needed - names)),
        *(f"foreign: {name}" for name in sorted(foreign)),
        *([] if licences else ["missing: our own licence"]),
    ]


def wrong_modes(package: Package) -> list[str]:
    """Files that not everyone may read, or that others may write; a server that cannot start."""
    wrong = [f"mode {mode:o}: {name}" for name, mode in package.modes.items()
             if mode & 0o444 != 0o444 or mode & 0o002]  # fmt: skip
    server = package.modes.get(LIB + SERVER)
    return wrong if server is None or server & stat.S_IXUSR else [*wrong, f"no program: {SERVER}"]


def wrong_headers(package: Package) -> list[str]:
    """Headers that llama.h includes and that are not there, and such as it does not need."""
    needed, todo = set(), {"llama.h"}
    while todo:
        needed |= todo
        todo = {each for name in todo for each in package.includes.get(name, ())} - needed
    there = set(package.includes)
    return [
        *(f"missing: {name}" for name in sorted(needed - there)),
        *(f"not needed: {name}" for name in sorted(there - needed)),
    ]


def wrong_elf(name: str, file: Elf, libraries: set[str]) -> list[str]:
    """Search paths and names that hold on one machine alone."""
    said = [f"absolute search path: {each}" for each in file.search if not each.startswith("$OR")]
    if "$ORIGIN" not in file.search and any(each in libraries for each in file.needed):
        said.append("does not look beside itself")
    said += [f"needs a path: {each}" for each in file.needed if "/" in each]
    ours = (each for each in file.needed if each.startswith(("libggml", "libllama")))
    said += [f"needs what is not there: {each}" for each in ours if each not in libraries]
    if file.soname != (name if name.endswith(".so") else None):
        said.append(f"is called {file.soname}")
    return [f"{name}: {each}" for each in (*said, *(f"names {path}" for path in file.paths))]


def wrong(package: Package, source: set[str]) -> list[str]:
    """All of the above."""
    libraries = {name for name in package.elfs if name.endswith(".so")}
    return [
        *wrong_names(package, source),
        *wrong_modes(package),
        *wrong_headers(package),
        *(line for name, file in package.elfs.items() for line in wrong_elf(name, file, libraries)),
    ]


def in_the_source_tree() -> set[str]:
    """What of ggmlprobe/ must be installed: all but what a build or Python itself puts there."""
    files = (path.relative_to(SOURCE.parent) for path in SOURCE.rglob("*") if path.is_file())
    return {str(path) for path in files
            if "__pycache__" not in path.parts and not str(path).startswith(LIB)}  # fmt: skip


@pytest.fixture(scope="module")
def package() -> Package:
    """The installed package, without the script and the caches that pip makes."""
    try:
        distribution = importlib.metadata.distribution("ggmlprobe")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("ggmlprobe is not installed")
    if Path(ggmlprobe.__file__).parent == SOURCE:
        pytest.skip("the source tree stands in front of what is installed")
    names = [str(file) for file in distribution.files or ()]
    kept = [name for name in names if "__pycache__" not in name and not name.startswith("..")]
    places = {name: Path(str(distribution.locate_file(name))) for name in kept}
    headers = {path for name, path in places.items() if name.startswith(f"{LIB}include/")}
    binaries = {path for path in places.values() if path.suffix == ".so" or path.name == SERVER}
    return Package(
        {name: path.stat().st_mode & 0o777 for name, path in places.items()},
        {path.name: set(re.findall(r'^#include "(.*)"', path.read_text(), re.MULTILINE))
         for path in headers},
        {path.name: elf(path) for path in binaries},
    )  # fmt: skip


def test_what_is_installed(package: Package) -> None:
    assert wrong(package, in_the_source_tree()) == []
    assert len(package.elfs) >= len(LIBRARIES)


SOUND = Package(
    {
        name: 0o755 if name.endswith(SERVER) else 0o644
        for name in (
            "ggmlprobe/cli.py", "ggmlprobe-0.1.dist-info/RECORD",
            "ggmlprobe-0.1.dist-info/licenses/LICENSE", f"{LIB}build.json",
            f"{LIB}LICENSE.llama.cpp", f"{LIB}include/llama.h", f"{LIB}{SERVER}",
            *(LIB + name for name in LIBRARIES),
        )
    },
    {"llama.h": {"ggml.h"}, "ggml.h": set()},
    {
        "libggml-base.so": Elf("libggml-base.so", ("libc.so.6",), ("$ORIGIN",)),
        "libggml.so": Elf("libggml.so", ("libggml-base.so",), ("$ORIGIN", "$ORIGIN/../x")),
        SERVER: Elf(None, ("libggml.so",), ("$ORIGIN",)),
    },
)  # fmt: skip


def with_file(name: str, mode: int = 0o644) -> Callable[[Package], Package]:
    return lambda sound: replace(sound, modes=sound.modes | {name: mode})


def without(name: str) -> Callable[[Package], Package]:
    return lambda sound: replace(sound, modes={n: m for n, m in sound.modes.items() if n != name})


def with_elf(**facts: object) -> Callable[[Package], Package]:
    def plant(sound: Package) -> Package:
        file = replace(sound.elfs["libggml.so"], **facts)  # type: ignore[arg-type]
        return replace(sound, elfs=sound.elfs | {"libggml.so": file})

    return plant


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (lambda sound: sound, None),
        (without("ggmlprobe/cli.py"), "missing: ggmlprobe/cli.py"),
        (without(f"{LIB}libllama.so"), f"missing: {LIB}libllama.so"),
        (without("ggmlprobe-0.1.dist-info/licenses/LICENSE"), "missing: our own licence"),
        (with_file("tests/test_cli.py"), "foreign: tests/test_cli.py"),
        (with_file("ggmlprobe/.ruff_cache/x"), "foreign: ggmlprobe/.ruff_cache/x"),
        (with_file(f"{LIB}libggml.so.0"), f"foreign: {LIB}libggml.so.0"),
        (with_file(f"{LIB}cmake/ggml-config.cmake"), f"foreign: {LIB}cmake/ggml-config.cmake"),
        (with_file(f"{LIB}build.json", 0o600), f"mode 600: {LIB}build.json"),
        (with_file(f"{LIB}build.json", 0o666), f"mode 666: {LIB}build.json"),
        (with_file(LIB + SERVER), f"no program: {SERVER}"),
        (lambda sound: replace(sound, includes={"llama.h": {"ggml.h"}}), "missing: ggml.h"),
        (lambda sound: replace(sound, includes={**sound.includes, "gguf.h": set()}),
         "not needed: gguf.h"),
        (with_elf(search=("$ORIGIN", "/home/me/build/bin")),
         "libggml.so: absolute search path: /home/me/build/bin"),
        (with_elf(search=("$ORIGIN", "")), "libggml.so: absolute search path: "),
        (with_elf(search=()), "libggml.so: does not look beside itself"),
        (with_elf(needed=("/build/libggml-base.so",)),
         "libggml.so: needs a path: /build/libggml-base.so"),
        (with_elf(needed=("libggml-base.so.0",)),
         "libggml.so: needs what is not there: libggml-base.so.0"),
        (with_elf(soname="libggml.so.0"), "libggml.so: is called libggml.so.0"),
        (with_elf(paths=("/home/me/ggml.c",)), "libggml.so: names /home/me/ggml.c"),
    ],
)  # fmt: skip
def test_a_planted_fault_is_told(plant: Callable[[Package], Package], said: str | None) -> None:
    assert wrong(plant(SOUND), {"ggmlprobe/cli.py"}) == ([said] if said else [])


def test_facts_of_a_planted_library(tmp_path: Path) -> None:
    source, library = tmp_path / "where.c", tmp_path / "libother.so"
    source.write_text('const char * where(void) { return "/home/me/build/ggml.c"; }')
    flags = ["-shared", "-fPIC", "-Wl,-soname,libother.so", "-Wl,-rpath,/opt/lib:$ORIGIN"]
    subprocess.run(["cc", *flags, source, "-o", library], check=True)
    seen = elf(library)
    assert (seen.soname, seen.search) == ("libother.so", ("/opt/lib", "$ORIGIN"))
    assert "/home/me/build/ggml.c" in seen.paths
