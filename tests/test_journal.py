"""The journal: rows that are on disk stay, whatever happens next."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ggmlprobe import journal as journal_module
from ggmlprobe.errors import FileExists, RecordError, UsageError
from ggmlprobe.journal import Journal, read
from ggmlprobe.record import (
    SCHEMA_VERSION,
    CaseClasses,
    Config,
    DeviceRecord,
    Environment,
    Header,
    LibraryInfo,
    Result,
)

ROOT = Path(__file__).parent.parent
CASE = "MUL_MAT(type_a=f32,m=4,k=8)"
C0 = Config(
    id="c0",
    library=LibraryInfo("build/bin", "0.25.3", "0c1e57098", "--lib"),
    device=DeviceRecord("CPU", "a CPU", "CPU", "CPU", 1000, {"AVX": "1"}),
    buft=None,
    threads=1,
    threads_batch=1,
)
C1 = replace(C0, id="c1", threads=2, threads_batch=2)
ENVIRONMENT = Environment("cpu", 1, 2, "os", "kernel", "3", "2", "0", "2026-01-01")
HEADER = Header(SCHEMA_VERSION, "ggmlprobe op mul_mat", [C0, C1], ENVIRONMENT)


def row(width: int, config: str = "c0", **changes: Any) -> Result:
    result = Result(config, CASE, f"{CASE} n={width}", "MUL_MAT", {"m": 4}, width, "INVARIANT")
    return replace(result, **changes)


def write(path: Path, *rows: Result | CaseClasses) -> None:
    with Journal.open(path, HEADER) as journal:
        for entry in rows:
            journal.append(entry)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def test_what_is_appended_is_read_back(path: Path) -> None:
    classes = CaseClasses(CASE, "c0", [[1, 2]], True)
    write(path, row(1), row(2, "c1", detail="caf\u00e9\n\u2028"), classes)
    partial = read(path)
    assert partial.header == HEADER
    assert partial.results == [row(1), row(2, "c1", detail="caf\u00e9\n\u2028")]
    assert partial.classes == [classes]
    assert partial.record().interrupted
    assert partial.record().results == partial.results


def test_a_row_is_on_disk_when_append_returns(path: Path) -> None:
    with Journal.open(path, HEADER) as journal:
        assert read(path).results == []
        journal.append(row(1))
        assert read(path).results == [row(1)]


def test_rows_survive_a_kill(path: Path) -> None:
    code = (
        "import os, signal, sys; sys.path.insert(0, sys.argv[2])\n"
        "import test_journal as t\n"
        "from pathlib import Path\n"
        "journal = t.Journal.open(Path(sys.argv[1]), t.HEADER)\n"
        "journal.append(t.row(1))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", code, str(path), str(Path(__file__).parent)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert read(path).results == [row(1)]


def test_cut_at_every_byte_of_the_last_line(path: Path) -> None:
    write(path, row(1), row(2), row(3, detail="caf\u00e9"))
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rindex(b"\n") + 1
    for cut in range(last, len(whole)):
        path.write_bytes(whole[:cut])
        assert read(path).results == [row(1), row(2)]
        with Journal.open(path, HEADER, resume=True) as journal:
            assert journal.partial.results == [row(1), row(2)]
            assert path.read_bytes() == whole[:last]
            journal.append(row(3, detail="caf\u00e9"))
        assert path.read_bytes() == whole


def test_the_whole_file_is_no_torn_one(path: Path) -> None:
    write(path, row(1), row(2))
    assert read(path).results == [row(1), row(2)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "line 3: not JSON"),
        (b"", "line 3: not JSON"),
        (b"\xff", "line 3: no text"),
        (b"\0\0\0", "line 3: not JSON"),
        (b"{}", "line 3: neither a result nor classes"),
        (b"[]", "line 3: neither a result nor classes"),
        (b'{"result":{}}', "line 3: result.config: missing"),
        (b'{"classes":{"case":3}}', "line 3: classes.case: expected string"),
    ],
)
def test_a_corrupt_middle_line_is_named(path: Path, line: bytes, message: str) -> None:
    write(path, row(1), row(2), row(3))
    lines = path.read_bytes().split(b"\n")
    lines[2] = line
    path.write_bytes(b"\n".join(lines))
    before = path.read_bytes()
    for attempt in (read, lambda p: Journal.open(p, HEADER, resume=True)):
        with pytest.raises(RecordError) as caught:
            attempt(path)
        assert str(caught.value).startswith(f"{path}: {message}")
        assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


def test_a_row_of_no_config_is_named(path: Path) -> None:
    write(path, row(1), row(2, "c7"))
    with pytest.raises(RecordError, match="line 3: no config 'c7'"):
        read(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"hello", "no whole line"),
        (b"hello\n", "line 1: not JSON"),
        (b"\x7fELF\xff\n", "no journal"),
        (b"[1]\n", "line 1: no ggmlprobe record"),
        (b'{"schema":1}\n', "line 1: no ggmlprobe record"),
        (b'{"schema":99,"configs":[]}\n', "line 1: schema 99 is newer"),
        (b'{"schema":1,"configs":[],"results":[]}\n', "line 1: a finished record"),
        (b'{"schema":1,"configs":[]}\n', "line 1: command: missing"),
    ],
)
def test_a_foreign_file_is_refused_and_left_alone(path: Path, data: bytes, message: str) -> None:
    path.write_bytes(data)
    for attempt in (read, lambda p: Journal.open(p, HEADER, resume=True)):
        with pytest.raises(RecordError) as caught:
            attempt(path)
        assert str(caught.value).startswith(f"{path}: {message}")
    assert path.read_bytes() == data


def test_an_existing_file_needs_resume_or_force(path: Path) -> None:
    write(path, row(1))
    before = path.read_bytes()
    with pytest.raises(FileExists, match="--resume goes on with it, --force replaces it"):
        Journal.open(path, HEADER)
    assert path.read_bytes() == before
    with Journal.open(path, HEADER, force=True) as journal:
        assert journal.partial.results == []
    assert read(path).results == []


def test_resume_goes_before_force(path: Path) -> None:
    write(path, row(1))
    with Journal.open(path, HEADER, resume=True, force=True) as journal:
        assert journal.partial.results == [row(1)]


def test_resume_starts_what_is_not_there_or_empty(path: Path) -> None:
    Journal.open(path, HEADER, resume=True).close()
    assert read(path).header == HEADER
    path.write_bytes(b"")
    Journal.open(path, HEADER, resume=True).close()
    assert read(path).header == HEADER


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file or directory"):
        Journal.open(tmp_path / "missing" / "run.jsonl", HEADER)
    with pytest.raises(UsageError, match="is no regular file"):
        Journal.open(tmp_path, HEADER, resume=True)


def test_a_second_writer_is_refused(path: Path) -> None:
    with Journal.open(path, HEADER) as journal:
        with pytest.raises(UsageError, match="being written by another run"):
            Journal.open(path, HEADER, resume=True)
        with pytest.raises(UsageError, match="being written by another run"):
            Journal.open(path, HEADER, force=True)
        journal.append(row(1))
    assert read(path).results == [row(1)]


def test_ids_are_matched_by_content(path: Path) -> None:
    write(path, row(1), row(1, "c1", verdict="CRASH"), CaseClasses(CASE, "c1", [[1]], True))
    swapped = [replace(C1, id="c0"), replace(C0, id="c1")]
    header = replace(HEADER, command="ggmlprobe op mul_mat --threads 2,1", configs=swapped)
    with Journal.open(path, header, resume=True) as journal:
        assert journal.partial.header == header
        assert journal.partial.results == [row(1, "c1"), row(1, "c0", verdict="CRASH")]
        assert journal.partial.classes == [CaseClasses(CASE, "c0", [[1]], True)]
        journal.append(row(2, "c1"))
    assert read(path).header == HEADER
    assert read(path).results[-1] == row(2, "c0")


def test_memory_and_origin_do_not_matter(path: Path) -> None:
    write(path, row(1))
    device = replace(C0.device, memory_total=5)
    library = replace(C0.library, origin="GGMLPROBE_LIB")
    header = replace(HEADER, configs=[replace(C0, device=device, library=library), C1])
    with Journal.open(path, header, resume=True) as journal:
        assert journal.partial.results == [row(1)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"threads": 3}, "threads is 1 in the file, 3 now"),
        ({"buft": "CPU_REPACK"}, "buft is None in the file, 'CPU_REPACK' now"),
        ({"env": {"GGML_X": "1"}}, "env GGML_X is None in the file, '1' now"),
        ({"library": replace(C0.library, version="1")}, "version is '0.25.3' in the file, '1' now"),
        ({"library": replace(C0.library, commit=None)}, "commit is '0c1e57098' in the file, None"),
        ({"library": replace(C0.library, path="/x")}, "library is 'build/bin' in the file, '/x'"),
        ({"device": replace(C0.device, name="CUDA0")}, "device.name is 'CPU' in the file, 'CUDA0'"),
        ({"device": replace(C0.device, features={})}, "device.features AVX is '1' in the file, "),
    ],
)
def test_other_configs_are_refused(path: Path, change: dict[str, Any], message: str) -> None:
    write(path, row(1))
    before = path.read_bytes()
    header = replace(HEADER, configs=[replace(C0, **change), C1])
    with pytest.raises(RecordError) as caught:
        Journal.open(path, header, resume=True)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert path.read_bytes() == before
    Journal.open(path, HEADER, resume=True).close()


def test_a_rebuilt_library_is_refused_and_named(path: Path) -> None:
    def with_identities(first: str | None, second: str | None) -> Header:
        other = replace(C1.library, path="other/bin", identity=second)
        mine = replace(C0.library, identity=first)
        return replace(HEADER, configs=[replace(C0, library=mine), replace(C1, library=other)])

    Journal.open(path, with_identities("a", "b")).close()
    Journal.open(path, with_identities("a", "b"), resume=True).close()
    before = path.read_bytes()
    for first, second, named in (("x", "b", "build/bin"), ("a", "x", "other/bin")):
        with pytest.raises(RecordError) as caught:
            Journal.open(path, with_identities(first, second), resume=True)
        assert str(caught.value) == (
            f"{path}: the files of library {named} are not those its rows were made with "
            "(a rebuild changes them): name a new file, or give that build"
        )
        assert path.read_bytes() == before


def test_fewer_or_more_configs_are_refused(path: Path) -> None:
    write(path, row(1))
    with pytest.raises(RecordError, match="more configs than this command has"):
        Journal.open(path, replace(HEADER, configs=[C0]), resume=True)
    third = replace(C0, id="c2", threads=8)
    with pytest.raises(RecordError, match="fewer configs than this command has"):
        Journal.open(path, replace(HEADER, configs=[C0, C1, third]), resume=True)


def test_another_environment_is_refused(path: Path) -> None:
    write(path, row(1))
    around = replace(ENVIRONMENT, env={"GGML_CPU_TILED_MM": "0"})
    with pytest.raises(RecordError, match="environment GGML_CPU_TILED_MM is None in the file, '0'"):
        Journal.open(path, replace(HEADER, environment=around), resume=True)


def test_a_later_line_holds(path: Path) -> None:
    write(path, row(1, verdict="CRASH"), row(2), row(1))
    assert read(path).results == [row(1), row(2)]


def test_finished_rows(path: Path) -> None:
    write(path, row(1), row(2, verdict="CRASH"), row(3, verdict="TIMEOUT"))
    partial = read(path)
    assert list(partial.finished()) == [("c0", CASE, 1), ("c0", CASE, 2), ("c0", CASE, 3)]
    assert list(partial.finished({"CRASH", "TIMEOUT"})) == [("c0", CASE, 1)]


class Disk:
    """os.write that writes at most 7 bytes a time and fails after a while."""

    def __init__(self, calls: int, error: BaseException) -> None:
        self.calls = calls
        self.error = error
        self.write = os.write

    def __call__(self, fd: int, data: bytes) -> int:
        if self.calls == 0:
            raise self.error
        self.calls -= 1
        return self.write(fd, data[:7])


def test_short_writes_are_gone_on_with(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module.os, "write", Disk(10_000, KeyboardInterrupt()))
    write(path, row(1))
    assert read(path).results == [row(1)]


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt),
        (OSError(28, "No space left on device"), UsageError),
    ],
)
def test_half_a_line_is_taken_back(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, raised: type[BaseException]
) -> None:
    with Journal.open(path, HEADER) as journal:
        journal.append(row(1))
        with monkeypatch.context() as patch:
            patch.setattr(journal_module.os, "write", Disk(3, error))
            with pytest.raises(raised):
                journal.append(row(2))
        journal.append(row(3))
    assert read(path).results == [row(1), row(3)]


def test_lines_are_plain_json(path: Path) -> None:
    write(path, row(1), CaseClasses(CASE, "c0", [[1]], True))
    head, result, classes = map(json.loads, path.read_text(encoding="ascii").splitlines())
    assert set(head) == {"schema", "command", "configs", "environment"}
    assert set(result) == {"result"}
    assert set(classes) == {"classes"}
