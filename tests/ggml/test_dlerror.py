"""What is missing is said in one line with the fix: on real files, made here with cc."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ggmlprobe.errors import LibraryBroken, SymbolMissing
from ggmlprobe.ggml.dlerror import Image, explain, image, wrong_image
from ggmlprobe.ggml.find import Found, find
from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.symbols import open_file

Compile = Callable[..., Path]


@pytest.fixture
def compile_library(tmp_path: Path) -> Compile:
    """Return a function that makes a shared library in the test's folder."""

    def make(name: str, source: str, *options: str | Path) -> Path:
        code = tmp_path / f"{name}.c"
        code.write_text(source)
        target = tmp_path / name
        command = ["cc", "-shared", "-fPIC", "-o", target, code, *options]
        subprocess.run(list(map(str, command)), check=True)
        return target

    return make


def refused(path: Path) -> str:
    with pytest.raises(LibraryBroken) as error:
        open_file(path)
    text = str(error.value)
    assert "\n" not in text
    assert str(path) in text
    return text


@pytest.mark.parametrize(
    ("needed", "fix"),
    [
        ("libcuda.so.1", "comes with the NVIDIA driver, so install the driver"),
        ("libcublas.so.13", "install the CUDA 13 runtime"),
        ("libcudart.so.12", "install the CUDA 12 runtime"),
        ("libamdhip64.so.6", "install ROCm"),
        ("libggml-nowhere.so.0", "give the folder of the whole build"),
        ("libsomething.so.3", "put its folder into LD_LIBRARY_PATH"),
    ],
)
def test_missing_dependency(needed: str, fix: str, compile_library: Compile) -> None:
    dependency = compile_library(
        "absent.so", "int absent(void) { return 1; }", f"-Wl,-soname,{needed}"
    )
    library = compile_library(
        "libggml.so", "int absent(void); int f(void) { return absent(); }", dependency
    )
    dependency.unlink()
    text = refused(library)
    assert f"needs {needed}" in text
    assert fix in text


def test_built_for_a_newer_system(compile_library: Compile, tmp_path: Path) -> None:
    versions = tmp_path / "versions"
    versions.write_text("GLIBC_2.99 { global: from_the_future; };")
    # a stand-in for a libc of the future, only to be linked against
    libc = compile_library(
        "future.so",
        "int from_the_future(void) { return 1; }",
        "-nostdlib",
        "-Wl,-soname,libc.so.6",
        f"-Wl,--version-script,{versions}",
    )
    source = "int from_the_future(void); int f(void) { return from_the_future(); }"
    library = compile_library("libggml.so", source, libc, "-nostdlib")
    text = refused(library)
    assert "newer system (needs GLIBC_2.99, this system has 2." in text
    assert "give a build made on this system or an older one" in text


def test_parts_of_two_builds(compile_library: Compile) -> None:
    library = compile_library(
        "libggml.so", "extern int table; int * f(void) { return &table; } int * p = &table;"
    )
    assert "needs the symbol table" in refused(library)


def test_dependency_beside_the_file_is_found(compile_library: Compile, tmp_path: Path) -> None:
    compile_library("libextra.so.7", "int extra(void) { return 7; }", "-Wl,-soname,libextra.so.7")
    # no name of ggml's: it stays open, and a library loaded later would be taken for mixed with it
    library = compile_library(
        "needs.so", "int extra(void); int f(void) { return extra(); }", tmp_path / "libextra.so.7"
    )
    assert open_file(library)


def test_text_file(tmp_path: Path) -> None:
    path = tmp_path / "libggml.so"
    path.write_text("INPUT(libggml.so.0)\n")
    assert "is a text file, no shared library" in refused(path)


def test_truncated_and_empty_files(compile_library: Compile) -> None:
    path = compile_library("libggml.so", "int f(void) { return 1; }")
    whole = path.read_bytes()
    path.unlink()
    # in the header's table, in what is mapped
    for size in (200, 5000):
        path.write_bytes(whole[:size])
        assert f"is damaged: it ends after {size} of " in refused(path)
        assert "copy or build it anew" in refused(path)
    path.write_bytes(b"")
    assert "of no known format" in refused(path)


def test_other_processor_and_word_size(compile_library: Compile) -> None:
    path = compile_library("libggml.so", "int f(void) { return 1; }")
    whole = bytearray(path.read_bytes())
    path.unlink()
    here = whole[18]
    whole[18] = 183 if here != 183 else 62
    path.write_bytes(whole)
    text = refused(path)
    assert "is for aarch64" in text or "is for x86_64" in text
    whole[18], whole[4] = here, 1
    path.write_bytes(whole)
    assert "give a 64-bit build" in refused(path)


def test_elf_that_is_no_ggml(compile_library: Compile) -> None:
    path = compile_library("whole.so", "int f(void) { return 1; }")
    with pytest.raises(LibraryBroken, match="is no ggml") as error:
        Library.load(find(str(path), {}))
    assert "\n" not in str(error.value)


def test_folder_is_no_file(tmp_path: Path) -> None:
    found = Found("--lib", tmp_path, (tmp_path,))
    with pytest.raises(LibraryBroken, match="cannot be read"):
        Library.load(found)


def test_missing_symbol(library: Library) -> None:
    assert not library.has("ggml_not_there")
    with pytest.raises(
        SymbolMissing, match="has no ggml_not_there: its version is too old"
    ) as error:
        library.c.ggml_not_there()
    assert "\n" not in str(error.value)


def test_functions_are_found_in_whichever_file_has_them(library: Library) -> None:
    # libggml-base, libggml and libggml-cpu in a build of today
    for name in ("ggml_init", "ggml_backend_dev_count", "ggml_backend_cpu_init"):
        assert library.has(name)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00", Image("elf", "x86_64")),
        (b"\x7fELF\x02\x02\x01" + bytes(9) + b"\x00\x03\x00\x16", Image("elf", "s390x")),
        (b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\xff\x01", Image("elf", "machine 511")),
        (b"\xcf\xfa\xed\xfe\x0c\x00\x00\x01", Image("mach-o")),
        (b"MZ\x90\x00", Image("pe")),
        (b"#!/bin/sh\n", Image("text")),
        (b"\x00\x01\x02", Image("other")),
        (b"", Image("other")),
    ],
)
def test_image(header: bytes, expected: Image) -> None:
    assert image(header) == expected


def test_wrong_image() -> None:
    elf = Image("elf", "x86_64")
    assert wrong_image("a", elf, "Linux", "x86_64") is None
    assert wrong_image("a", elf, "Linux", "AMD64") is None
    assert wrong_image("a", Image("elf", "aarch64"), "Linux", "arm64") is None
    assert "this machine is aarch64" in (wrong_image("a", elf, "Linux", "aarch64") or "")
    assert "give a build for Linux" in (wrong_image("a", Image("mach-o"), "Linux", "x86_64") or "")
    assert "give a build for Darwin" in (wrong_image("a", elf, "Darwin", "arm64") or "")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "/lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by /b/libggml.so)",
            "/b/libggml.so is built for a newer system (needs GLIBCXX_3.4.32): "
            "give a build made on this system or an older one",
        ),
        ("a\nb", "lib cannot be opened: a b"),
        (
            "libc.musl-x86_64.so.1: cannot open shared object file: No such file or directory",
            "lib needs libc.musl-x86_64.so.1, which is not here; "
            "the file is built for musl (Alpine), so give a build for glibc",
        ),
    ],
)
def test_explain(message: str, expected: str) -> None:
    assert explain("lib", message, "2.36") == expected


def test_a_damaged_dependency_beside_the_file(compile_library: Compile, tmp_path: Path) -> None:
    more = compile_library(
        "libmore.so.8", "int more(void) { return 8; }", "-Wl,-soname,libmore.so.8"
    )
    library = compile_library("libggml.so", "int more(void); int f(void) { return more(); }", more)
    more.write_bytes(more.read_bytes()[:5000])
    with pytest.raises(LibraryBroken, match=r"libmore\.so\.8 is damaged"):
        open_file(library)


def test_no_line_has_two_colons() -> None:
    absent = "{}: cannot open shared object file: No such file or directory"
    names = (
        "libcuda.so.1",
        "libcublas.so.13",
        "libggml-cpu.so",
        "libc.musl-x86_64.so.1",
        "libx.so",
    )
    for message in (*map(absent.format, names), "undefined symbol: f", "x: invalid ELF header"):
        assert explain("lib", message).count(": ") < 2
