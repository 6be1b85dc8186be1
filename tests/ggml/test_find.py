"""Which files are chosen from names alone, and where they are looked for."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ggmlprobe.errors import LibraryNotFound
from ggmlprobe.ggml import find as module
from ggmlprobe.ggml.find import choose, find, llama_beside, part_of


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("libggml.so", ""),
        ("libggml.so.0.25.3", ""),
        ("libggml.v0.5.0.so", ""),
        ("libggml.b6673.so", ""),
        ("libggml.cuda.v0.5.0.so", ""),
        ("libggml.vulkan.b6673.so", ""),
        ("libggml-base.cuda.v0.5.0.so", "base"),
        ("libggml.cuda.so", None),
        ("libggml.0.dylib", ""),
        ("ggml.dll", ""),
        ("libggml-684d824a.so.0.13.1", ""),
        ("libggml-base.so.0", "base"),
        ("libggml-base.0.9.4.dylib", "base"),
        ("libggml-base-319ad4fb.so.0.13.1", "base"),
        ("libggml-cpu.so", "cpu"),
        ("libggml-cpu-haswell.so", "cpu-haswell"),
        ("libggml-cpu-android_armv8.2_1.so", "cpu-android_armv8.2_1"),
        ("libggml.dylib", ""),
        ("libggml.0.9.4.dylib", ""),
        ("libggml-base.dylib", "base"),
        ("libggml-cpu.0.9.4.dylib", "cpu"),
        # a plug-in of macOS has a module's suffix
        ("libggml-cpu-apple_m2_m3.so", "cpu-apple_m2_m3"),
        ("libggml-metal.dylib", "metal"),
        ("libggml-blas.0.dylib", "blas"),
        ("ggml-base.dll", "base"),
        ("ggml-cpu-haswell.dll", "cpu-haswell"),
        ("ggml-cuda.dll", "cuda"),
        ("ggml-base.lib", None),
        ("ggml-metal.metal", None),
        ("default.metallib", None),
        ("libomp140.x86_64.dll", None),
        ("cudart64_12.dll", None),
        ("libggmlx.so", None),
        ("libggml.a", None),
        ("ggml.h", None),
        ("libllama.so", None),
    ],
)
def test_part_of(name: str, part: str | None) -> None:
    assert part_of(name) == part


@pytest.mark.parametrize(
    ("names", "files", "backends"),
    [
        (
            # llama.cpp build/bin: links of one library by three names
            [
                *("libggml.so", "libggml.so.0", "libggml-cpu.so.0", "libggml-cpu.so"),
                *("libggml-base.so", "libllama.so", "llama-cli", "libggml-base.so.0.25.3"),
            ],
            ("libggml-base.so", "libggml-cpu.so", "libggml.so"),
            (),
        ),
        (
            # plug-ins and an odd main name; nothing links the CPU backend
            [
                *("libggml.v0.5.0.so", "libggml-cpu-x64.so", "libggml-cpu-zen4.so"),
                *("libggml-base.so", "libllama.v0.5.0.so", "llama-addon.node"),
            ],
            ("libggml-base.so", "libggml.v0.5.0.so"),
            ("libggml-cpu-x64.so", "libggml-cpu-zen4.so"),
        ),
        (
            # names a wheel repair tool made
            [
                *("libggml-684d824a.so.0.13.1", "libggml-cpu-67036419.so.0.13.1"),
                *("libgomp-e985bcbb.so.1.0.0", "libggml-base-319ad4fb.so.0.13.1"),
            ],
            (
                "libggml-base-319ad4fb.so.0.13.1",
                "libggml-cpu-67036419.so.0.13.1",
                "libggml-684d824a.so.0.13.1",
            ),
            (),
        ),
        (
            ["ggml-base.dll", "ggml.dll", "ggml-cpu.dll"],
            ("ggml-base.dll", "ggml-cpu.dll", "ggml.dll"),
            (),
        ),
        (
            ["libggml.dylib", "libggml-base.dylib", "libggml-metal.dylib", "libggml-cpu.dylib"],
            ("libggml-base.dylib", "libggml-cpu.dylib", "libggml.dylib"),
            ("libggml-metal.dylib",),
        ),
        (
            # llama.cpp's archive for Windows
            [
                *("ggml.dll", "ggml-base.dll", "ggml-cpu-haswell.dll", "ggml-cpu-zen4.dll"),
                *("ggml-cuda.dll", "ggml-rpc.dll", "llama.dll", "llama-common.dll", "mtmd.dll"),
                *("llama-cli.exe", "libomp140.x86_64.dll", "LICENSE-curl", "rpc-server.exe"),
            ],
            ("ggml-base.dll", "ggml.dll"),
            ("ggml-cpu-haswell.dll", "ggml-cpu-zen4.dll", "ggml-cuda.dll", "ggml-rpc.dll"),
        ),
        (
            # llama.cpp's archive for macOS: links of one library by three names
            [
                *("libggml.dylib", "libggml.0.dylib", "libggml.0.9.4.dylib", "libllama.dylib"),
                *("libggml-base.0.9.4.dylib", "libggml-base.0.dylib", "libggml-base.dylib"),
                *("libggml-cpu.0.dylib", "libggml-cpu.dylib", "libggml-cpu.0.9.4.dylib"),
                *("libggml-metal.0.dylib", "libggml-metal.dylib", "libggml-blas.0.dylib"),
                *("libggml-blas.dylib", "libggml-rpc.dylib", "llama-cli", "default.metallib"),
            ],
            ("libggml-base.dylib", "libggml-cpu.dylib", "libggml.dylib"),
            ("libggml-blas.dylib", "libggml-metal.dylib", "libggml-rpc.dylib"),
        ),
        (
            # an archive without links
            ["libggml.0.9.4.dylib", "libggml-base.0.9.4.dylib", "libggml-cpu.0.9.4.dylib"],
            ("libggml-base.0.9.4.dylib", "libggml-cpu.0.9.4.dylib", "libggml.0.9.4.dylib"),
            (),
        ),
        # a plain name with a version goes before a shorter odd one
        (["libggml.b66.so", "libggml.so.0.25.3"], ("libggml.so.0.25.3",), ()),
        # the variant of a package for CUDA
        (
            ["libggml-base.so", "libggml.cuda.v0.5.0.so", "libllama.cuda.v0.5.0.so"],
            ("libggml-base.so", "libggml.cuda.v0.5.0.so"),
            (),
        ),
        # before ggml was split
        (["libggml.so", "libllama.so"], ("libggml.so",), ()),
        # everything in one file
        (["libllama.so", "README.md"], ("libllama.so",), ()),
        (["llama.dll", "llama.lib", "llama-cli.exe"], ("llama.dll",), ()),
        (["libwhisper.1.dylib", "libwhisper.coreml.dylib"], ("libwhisper.1.dylib",), ()),
        (["index.node", "package.json"], ("index.node",), ()),
        (["libm.so.6", "notes.txt"], (), ()),
    ],
)
def test_choose(names: list[str], files: tuple[str, ...], backends: tuple[str, ...]) -> None:
    for order in (names, names[::-1]):
        choice = choose(order)
        assert choice.files == files
        assert choice.backends == backends


def touch(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def test_folder_and_the_usual_folders_below_it(tmp_path: Path) -> None:
    folder = touch(tmp_path / "build" / "bin", "libggml.so", "libggml-base.so")
    for given in (tmp_path, tmp_path / "build", folder):
        found = find(str(given), {})
        assert found.origin == "--lib"
        assert found.directory == folder
        assert found.files == (folder / "libggml-base.so", folder / "libggml.so")
        assert found.plugin_dir is None


@pytest.mark.parametrize("given", ["", "build", "build/bin", "build/bin/Release"])
def test_what_visual_studio_builds(tmp_path: Path, given: str) -> None:
    release = touch(tmp_path / "build/bin/Release", "ggml.dll", "ggml-base.dll", "ggml-cpu.dll")
    found = find(str(tmp_path / given), {})
    assert found.files == tuple(
        release / name for name in ("ggml-base.dll", "ggml-cpu.dll", "ggml.dll")
    )


@pytest.mark.parametrize(
    ("library", "below", "backends"),
    [
        ("libggml.so.0", "ggml/backends0", ["libggml-cpu-x64.so", "libggml-vulkan.so"]),
        ("libggml.so", "ggml/backends", ["libggml-cuda.so"]),
        ("libggml.so.0", "ggml", ["libggml-cpu.so"]),
        ("libggml.dylib", "../libexec", ["libggml-cpu-apple_m1.so", "libggml-metal.so"]),
    ],
)
def test_backends_in_a_folder_of_their_own(
    tmp_path: Path, library: str, below: str, backends: list[str]
) -> None:
    base = library.replace("libggml", "libggml-base")
    lib = touch(tmp_path / "Cellar" / "ggml" / "lib", library, base)
    # headers may have such a folder too
    touch(lib / "ggml", "ggml-config.cmake")
    folder = touch(lib / below, *backends).resolve()
    found = find(str(lib), {})
    assert found.files == (lib / base, lib / library)
    assert found.plugin_dir == folder
    assert found.folders == (lib, folder)
    # Homebrew's lib has links to the libraries alone
    linked = tmp_path / "homebrew" / "lib"
    linked.mkdir(parents=True)
    for name in (library, base):
        (linked / name).symlink_to(lib / name)
    found = find(str(linked), {})
    assert found.files == (linked / base, linked / library)
    assert found.plugin_dir == folder


def test_backends_beside_the_library_are_its_own(tmp_path: Path) -> None:
    touch(tmp_path / "lib", "libggml.so", "libggml-base.so", "libggml-cpu-x64.so")
    touch(tmp_path / "libexec", "libggml-cpu-x64.so")
    found = find(str(tmp_path), {})
    assert found.folders == (tmp_path / "lib",)
    (tmp_path / "lib" / "libggml-cpu-x64.so").unlink()
    assert find(str(tmp_path), {}).plugin_dir == tmp_path / "libexec"


@pytest.mark.parametrize(
    ("names", "llama"),
    [
        (["libllama.so.0", "libllama.so", "libllama-common.so"], "libllama.so"),
        (["libllama.b6673.so", "libllama-common.so"], "libllama.b6673.so"),
        (["libllama.0.0.6673.dylib", "libllama.0.dylib", "libllama.dylib"], "libllama.dylib"),
        (["libllama.0.0.6673.dylib", "libllama.0.dylib"], "libllama.0.dylib"),
        (["llama.dll", "llama-common.dll", "llama.lib", "llama-cli.exe"], "llama.dll"),
        (["mtmd.dll", "llama-common.dll"], None),
    ],
)
def test_llama_beside(tmp_path: Path, names: list[str], llama: str | None) -> None:
    touch(tmp_path, "libggml.so", *names)
    assert llama_beside(find(str(tmp_path), {})) == (llama and tmp_path / llama)


def test_plug_in_folder_is_named(tmp_path: Path) -> None:
    touch(tmp_path, "libggml.so", "libggml-base.so", "libggml-cpu-x64.so")
    assert find(str(tmp_path), {}).plugin_dir == tmp_path


def test_file_brings_its_family(tmp_path: Path) -> None:
    touch(tmp_path, "libggml.so", "libggml-base.so", "libggml-cpu.so", "libggml.v0.5.0.so")
    whole = (tmp_path / "libggml-base.so", tmp_path / "libggml-cpu.so")
    assert find(str(tmp_path / "libggml-base.so"), {}).files == (*whole, tmp_path / "libggml.so")
    odd = find(str(tmp_path / "libggml.v0.5.0.so"), {})
    assert odd.files == (*whole, tmp_path / "libggml.v0.5.0.so")


def test_plug_in_file_is_the_one_loaded(tmp_path: Path) -> None:
    touch(tmp_path, "libggml.so", "libggml-base.so", "libggml-cpu-x64.so", "libggml-cpu-zen4.so")
    found = find(str(tmp_path / "libggml-cpu-x64.so"), {})
    assert found.files == (tmp_path / "libggml-base.so", tmp_path / "libggml.so")
    assert found.plugins == (tmp_path / "libggml-cpu-x64.so",)
    assert found.plugin_dir is None


def test_any_other_file_stands_alone(tmp_path: Path) -> None:
    touch(tmp_path, "whole.so", "libggml.so")
    assert find(str(tmp_path / "whole.so"), {}).files == (tmp_path / "whole.so",)


def test_order_of_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = touch(tmp_path / "given", "libggml.so")
    environment = touch(tmp_path / "environment", "libggml.so")
    packaged = touch(tmp_path / "packaged", "libggml.so")
    package = tmp_path / "site" / "llama_cpp"
    installed = touch(package / "lib", "libggml.so")
    # looked at, never imported
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(module, "PACKAGED", packaged)
    environ = {"GGMLPROBE_LIB": str(environment)}

    def place(lib: str | None, environ: dict[str, str]) -> tuple[str, Path]:
        found = find(lib, environ)
        return found.origin, found.directory

    assert place(str(given), environ) == ("--lib", given)
    assert place(None, environ) == ("GGMLPROBE_LIB", environment)
    assert place(None, {"GGMLPROBE_LIB": ""}) == ("packaged", packaged)
    monkeypatch.setattr(module, "PACKAGED", tmp_path / "none")
    assert place(None, {}) == ("llama_cpp", installed)


def one_line(error: pytest.ExceptionInfo[LibraryNotFound]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_nothing_there_is_said_with_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LibraryNotFound) as error:
        find(str(tmp_path / "absent"), {})
    assert "no such file or folder; give the folder" in one_line(error)
    touch(tmp_path, "notes.txt")
    with pytest.raises(LibraryNotFound) as error:
        find(str(tmp_path), {})
    assert "no libggml in this folder" in one_line(error)
    with pytest.raises(LibraryNotFound) as error:
        find(None, {"GGMLPROBE_LIB": str(tmp_path)})
    assert one_line(error).startswith("GGMLPROBE_LIB ")
    monkeypatch.setattr(module, "PACKAGED", tmp_path / "none")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(LibraryNotFound) as error:
        find(None, {})
    assert "--lib or GGMLPROBE_LIB" in one_line(error)


def test_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME" if os.name == "posix" else "USERPROFILE", str(tmp_path))
    touch(tmp_path / "build", "libggml.so")
    assert find("~/build", {}).directory == tmp_path / "build"


def test_paths_are_absolute_and_the_given_one_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = touch(tmp_path / "build" / "bin", "libggml.so", "libggml-base.so", "libggml-cpu-x.so")
    monkeypatch.chdir(folder)
    for text, plugin_dir in ((".", folder), ("./", folder), ("libggml.so", folder)):
        for found in (find(text, {}), find(None, {"GGMLPROBE_LIB": text})):
            assert found.directory == folder
            assert found.files == (folder / "libggml-base.so", folder / "libggml.so")
            assert found.plugin_dir == plugin_dir
            assert str(found.given) == "."
    assert find("libggml-cpu-x.so", {}).plugins == (folder / "libggml-cpu-x.so",)
    monkeypatch.chdir(tmp_path)
    assert str(find("build", {}).given) == "build/bin"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "--lib is empty; give the folder that holds libggml.so"),
        (os.devnull, f"--lib {os.devnull} is neither a file nor a folder; give the folder"),
        ("x" * 5000, "cannot be read (File name too long); give the folder"),
    ],
)
def test_what_cannot_be_a_library(text: str, says: str) -> None:
    with pytest.raises(LibraryNotFound) as error:
        find(text, {})
    assert says in one_line(error)


def test_nothing_below_a_file(tmp_path: Path) -> None:
    touch(tmp_path, "libggml.so")
    with pytest.raises(LibraryNotFound) as error:
        find(str(tmp_path / "libggml.so" / "x"), {})
    assert "no such file or folder" in one_line(error)


@pytest.fixture
def closed() -> Iterator[Path]:
    """Return a folder with a library that this process may not read."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        closed = touch(Path(folder) / "closed", "libggml.so")
        closed.chmod(0)
        # root may read everything
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        yield closed
        os.seteuid(user)
        closed.chmod(0o700)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_folder_that_may_not_be_read(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (closed, closed / "libggml.so"):
        with pytest.raises(LibraryNotFound) as error:
            find(str(path), {})
        assert f"--lib {path} cannot be read (Permission denied); give" in one_line(error)
    # an entry of sys.path need not be readable
    monkeypatch.syspath_prepend(str(closed))
    assert module._packaged()
