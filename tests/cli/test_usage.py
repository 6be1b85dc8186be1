"""Every bad input is one line on stderr that says the fix, exit status 2, nothing on stdout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from ggmlprobe import record
from ggmlprobe.cli import main

Cli = Callable[..., subprocess.CompletedProcess[str]]
MUL_MAT = ("op", "mul_mat")
SMALL = (*MUL_MAT, "--type", "f32", "--m", "16", "--k", "1", "--widths", "1-3")


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one line on stderr."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("ggmlprobe: ")
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("\n")
    return done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no-such-command"], "No such command 'no-such-command'"),
        ([], "Missing command"),
        (["op"], "Missing command"),
        (["preset"], "Missing command"),
        (["op", "mul_matt"], "mul_mat"),
        ([*SMALL, "--colour"], "--colour"),
        ([*SMALL, "extra"], "extra"),
        ([*MUL_MAT, "--widths", "0"], "at least 1"),
        ([*MUL_MAT, "--widths", "4-1"], "'4-1' never ends or is empty"),
        ([*MUL_MAT, "--widths", "1-4*1"], "FIRST-LAST+STEP"),
        ([*MUL_MAT, "--widths", "one"], "'one' is no range: write 1,2,4"),
        ([*MUL_MAT, "--widths", ""], "is no range"),
        ([*MUL_MAT, "--m", "16"], "--m and --k go together"),
        ([*MUL_MAT, "--k", "256"], "--m and --k go together"),
        ([*SMALL, "--bs", "1"], "not 2 integers"),
        ([*SMALL, "--per", "0,0,1,2"], "order of 0,1,2,3"),
        ([*SMALL, "--k-v", "1"], "--k-v must be larger than k"),
        ([*SMALL, "--threads", "0"], "at least 1"),
        ([*SMALL, "--timeout", "0"], "timeout"),
        ([*SMALL, "--timeout", "inf"], "timeout"),
        ([*SMALL, "--timeout", "nan"], "'nan' is no number"),
        ([*SMALL, "--threads", "513"], "at most 512"),
        ([*SMALL, "--threads-batch", "1,1000000"], "at most 512"),
        ([*SMALL, "--seeds", "1,18446744073709551616"], "at most 18446744073709551615"),
        ([*SMALL, "--m", "99999999999999999999"], "at most 1000000000000"),
        ([*SMALL, "--bs", "1,99999999999999999999"], "at most 1000000000000"),
        ([*SMALL, "--k-v", "99999999999999999999"], "1000000000000"),
        ([*SMALL, "--per", "1,0,2,3"], "--per must begin with 0"),
        (["bisect", "mul_mat", "--axis", "threads", "--to", "513"], "at most 512 threads"),
        (["ab", "mul_mat", "--threads-b", "513"], "512"),
        (["op", "flash_attn", "--softcap", "nan"], "'nan' is no number"),
        (["op", "flash_attn", "--softcap", "inf"], "--softcap"),
        (["op", "attn_nofa", "--max-bias", "nan"], "'nan' is no number"),
        (["op", "attn_nofa", "--max-bias", "1e30"], "--max-bias"),
        (["model", "compare", "none.gguf", "-t", "513"], "at most 512"),
        ([*SMALL, "--type", "f32,"], "empty name"),
        ([*SMALL, "-o", "xml"], "md"),
        ([*SMALL, "--retry"], "--retry goes with --resume FILE"),
        (["op", "flash_attn", "--heads", "5", "--kv-heads", "2"], "multiple of --kv-heads 2"),
        (["op", "flash_attn", "--no-mask"], "--no-mask needs --kv-exact"),
        (["op", "flash_attn", "--check", "nothing"], "kv-padding"),
        (["op", "attn_nofa", "--type-v", "q8_0"], "--type-v must be f32, f16 or bf16"),
        (["op", "mul_mat_id", "--routing", "fair"], "shared, disjoint, random, skewed"),
        (["op", "mul_mat_id", "--experts", "4", "--used", "5"], "used"),
        (["preset", "run", "no-such-preset"], "issue-28111"),
        (["preset", "run"], "Missing argument"),
    ],
)  # fmt: skip
def test_usage(
    cli_env: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: list[str], says: str,
) -> None:  # fmt: skip
    for name, value in cli_env.items():
        monkeypatch.setenv(name, value)
    # in this process, which saves starting Python thirty times
    with pytest.raises(SystemExit) as ended:
        main(arguments, prog_name="ggmlprobe")
    out, err = capsys.readouterr()
    assert says in refused(subprocess.CompletedProcess([], int(ended.value.code or 0), out, err))


def test_usage_of_the_command_itself(cli: Cli) -> None:
    assert "4-1" in refused(cli(*MUL_MAT, "--widths", "4-1"))
    assert "Missing command" in refused(cli())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--type", "q9_9"], "no type q9_9 in this library: it has f32"),
        (["--type-b", "q9_9"], "no type q9_9"),
        (["--type", "two\nlines"], "no type two lines in this library"),
        (["--device", "CUDA77"], "no device CUDA77"),
        (["--buft", "CPU_NONE"], "no buffer type CPU_NONE: CPU has CPU"),
        (["--type", "q4_K", "--k", "100"], "multiple of 256"),
        (["--lib", "nowhere/at/all"], "nowhere/at/all: no such file or folder"),
    ],
)
def test_what_the_library_does_not_have(cli: Cli, arguments: list[str], says: str) -> None:
    assert says in refused(cli(*SMALL, *arguments))


def test_fewer_cells_than_tokens(cli: Cli) -> None:
    said = refused(cli("op", "flash_attn", "--kv", "4", "--widths", "1-8"))
    assert "--kv 4 is less than the widest width 8" in said


@pytest.mark.parametrize("content", [None, b"", b"text", b"\x7fELF" + bytes(100)])
def test_lib_that_is_no_library(cli: Cli, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "libggml.so"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    assert "libggml.so" in refused(cli(*SMALL, "--lib", path))


def test_lib_that_is_another_library(cli: Cli, planted: Path) -> None:
    said = refused(cli(*SMALL, "--lib", planted))
    assert "no ggml" in said


@pytest.mark.parametrize("kind", ["md", "csv", "json", "jsonl"])
def test_export_never_overwrites(cli: Cli, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "mine"
    path.write_text("precious")
    assert "--force replaces it" in refused(cli(*SMALL, f"--export-{kind}", path))
    assert path.read_text() == "precious"
    done = cli(*SMALL, f"--export-{kind}", path, "--force")
    assert done.returncode == 0
    assert "MUL_MAT" in path.read_text()
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["mine"]


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("missing/out.json", "make it first"),
        (".", "directory"),
        ("n" * 300, "File name too long: name a file elsewhere"),
    ],
)
def test_export_into_a_place_that_cannot_hold_it(cli: Cli, where: str, says: str) -> None:
    assert says in refused(cli(*SMALL, "--export-json", where))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("nonsense\n", "line 1"),
        ('{"schema": 999, "configs": []}\n', "newer"),
        ('{"schema": 1', "no whole line"),
    ],
)
def test_resume_from_a_file_that_is_no_journal(
    cli: Cli, tmp_path: Path, content: str, says: str
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(content)
    assert says in refused(cli(*SMALL, "--resume", path))
    assert path.read_text() == content, "nothing is lost"


@pytest.mark.parametrize("what", ["/dev/null", "/dev/zero", "/dev/full", "folder", "pipe"])
def test_resume_from_what_is_no_regular_file(cli: Cli, tmp_path: Path, what: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    said = refused(cli(*SMALL, "--resume", what, timeout=30))
    assert f"{what} is no regular file" in said


def test_resume_into_a_missing_folder(cli: Cli) -> None:
    assert "missing/run.jsonl" in refused(cli(*SMALL, "--resume", "missing/run.jsonl"))


def test_resume_with_other_settings(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    assert cli(*SMALL, "--resume", path, "--threads", "1").returncode == 0
    before = path.read_bytes()
    assert "threads" in refused(cli(*SMALL, "--resume", path, "--threads", "2"))
    assert path.read_bytes() == before


def test_nothing_that_ran_is_no_pass(cli: Cli) -> None:
    done = cli(*MUL_MAT, "--type", "q8_1", "--m", "16", "--k", "256", "--widths", "1-2")
    assert done.returncode == 2
    assert done.stderr == "ggmlprobe: 0 cases ran: library does not quantize to q8_1\n"


def test_buffer_type_that_does_not_take_the_weights(cli: Cli) -> None:
    if "CPU_REPACK" not in cli("devices").stdout:
        pytest.skip("this library repacks nothing on this CPU")
    given = (*SMALL, "--buft", "CPU_REPACK")
    said = refused_rows(cli(*given))
    assert said == "CPU_REPACK does not take f32 weights of this shape"
    said = refused_rows(cli(*given, "--type-b", "f16"))
    assert said == "CPU_REPACK does not take f32 weights of this shape times f16"
    experts = ("op", "mul_mat_id", "--type", "f32", "--m", "16", "--k", "32", "--experts", "8")
    said = refused_rows(cli(*experts, "--widths", "1", "--buft", "CPU_REPACK"))
    assert said == "CPU_REPACK does not take f32 weights of this shape"
    for op in ("flash_attn", "attn_nofa"):
        said = refused_rows(cli("op", op, "--kv", "8", "--widths", "1", "--buft", "CPU_REPACK"))
        assert said == "attention has no weights for CPU_REPACK: its caches are in CPU"


def refused_rows(done: subprocess.CompletedProcess[str]) -> str:
    """Why no row of a run could be computed."""
    assert done.returncode == 2
    return done.stderr.removeprefix("ggmlprobe: 0 cases ran: ").strip()


def test_failed_runs_leave_no_journal(cli: Cli, tmp_path: Path) -> None:
    refused(cli(*SMALL, "--type", "q9_9"))
    refused(cli(*SMALL, "--export-json", "missing/out.json"))
    assert not list((tmp_path / "state").rglob("*.jsonl"))


def test_full_disk_behind_stdout(cli: Cli, tmp_path: Path) -> None:
    for arguments in ([*SMALL, "--export-json", "out.json"], ["preset", "list"]):
        with open("/dev/full", "w") as full:
            done = cli(*arguments, capture_output=False, stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == 2
        assert done.stderr.startswith("ggmlprobe: ")
        assert "No space left on device" in done.stderr
        assert done.stderr.count("\n") == 1
        kept = done.stderr.partition("the rows are kept: --resume ")[2].strip()
        assert (arguments[0] == "preset") != bool(kept)
        if kept:
            assert cli(*SMALL, "--resume", kept).returncode in (0, 1)
    assert record.load(tmp_path / "out.json").results, "the export is not lost with it"


def test_closed_pipe_behind_stdout_costs_no_export(cli: Cli, tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = cli(*SMALL, "--export-json", "out.json", capture_output=False, stdout=write,
                   stderr=subprocess.PIPE)  # fmt: skip
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, "")
    assert record.load(tmp_path / "out.json").results


@pytest.mark.parametrize("arguments", [["--help"], ["op", "mul_mat", "--help"], ["preset", "list"]])
def test_closed_pipe_behind_stdout_is_no_finding(cli: Cli, arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = cli(*arguments, capture_output=False, stdout=write, stderr=subprocess.PIPE)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("kind", "arguments"), [("full", ["--nonsense"]), ("pipe", ["--nonsense"]), ("pipe", [])]
)
def test_stderr_that_takes_nothing(cli: Cli, kind: str, arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    if kind == "full":
        os.dup2(os.open("/dev/full", os.O_WRONLY), write)
    try:
        done = cli(*arguments, capture_output=False, stdout=subprocess.PIPE, stderr=write)
    finally:
        os.close(write)
    assert (done.returncode, done.stdout) == (2, "")


def test_closed_streams(cli: Cli, cli_env: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ggmlprobe", *SMALL, "--export-json", "out.json"]
    shell = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *command]
    assert subprocess.run(shell, env=cli_env, cwd=tmp_path, check=False).returncode == 0
    assert [row.width for row in record.load(tmp_path / "out.json").results] == [1, 2, 3]


def commands(command: click.Command, context: click.Context) -> Iterator[str]:
    """The help of a command and of all below it."""
    yield command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, click.Context(below, context, name))


def test_every_help_fits_80_columns_and_has_an_example() -> None:
    texts = list(commands(main, click.Context(main, info_name="ggmlprobe")))
    assert len(texts) >= 11
    for text in texts:
        assert max(map(len, text.splitlines())) <= 80, text
        assert "Example:" in text, text
        assert "ggmlprobe " in text.partition("Example:")[2], text


def paths(command: click.Command, name: str) -> Iterator[str]:
    """The command and all below it, as typed; of an op's commands those of `op` stand for all."""
    yield name
    if isinstance(command, click.Group) and name not in SAME_OPS:
        for below in command.commands.values():
            yield from paths(below, f"{name} {below.name}")


SAME_OPS = tuple(f"ggmlprobe {name}" for name in ("ab", "bisect", "sweep", "threshold"))


@pytest.mark.parametrize("path", list(paths(main, "ggmlprobe")))
def test_every_command_is_in_the_readme(path: str) -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text()
    assert f"{path} " in text, f"README.md shows no `{path}`"


def test_every_command_has_one_line_in_its_list() -> None:
    for text in commands(main, click.Context(main, info_name="ggmlprobe")):
        listed = text.partition("\nCommands:\n")[2].partition("\n\n")[0]
        for line in listed.splitlines():
            assert re.match(r"  [a-z_-]+  +\S", line), (
                f"{line!r} goes on: make its short_help short"
            )
            assert not line.endswith("..."), f"{line!r} is cut off: give it a short_help"


def test_examples_are_commands_that_there_are() -> None:
    examples = [
        line.split()
        for text in commands(main, click.Context(main, info_name="ggmlprobe"))
        for line in text.splitlines()
        if line.strip().startswith("ggmlprobe ")
    ]
    assert examples
    for _, *words in examples:
        command: click.Command = main
        while isinstance(command, click.Group):
            command = command.commands[words.pop(0)]
        known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        given = {word for word in words if word.startswith("--")}
        assert given <= known, f"{command.name}: {given - known}"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion(cli_env: dict[str, str], shell: str) -> None:
    done = completed(cli_env, {"_GGMLPROBE_COMPLETE": f"{shell}_source"})
    assert "_GGMLPROBE_COMPLETE" in done


def test_completion_names_commands(cli_env: dict[str, str]) -> None:
    asked = {"_GGMLPROBE_COMPLETE": "zsh_complete", "COMP_CWORD": "1"}
    assert "report" in completed(cli_env, asked | {"COMP_WORDS": "ggmlprobe rep"}).split()


def completed(cli_env: dict[str, str], asked: dict[str, str]) -> str:
    """What the installed script, by its name, tells a shell."""
    script = "import sys; from ggmlprobe.cli import main; sys.argv = ['ggmlprobe']; main()"
    done = subprocess.run([sys.executable, "-c", script], env=cli_env | asked, text=True,
                          capture_output=True, check=True)  # fmt: skip
    return done.stdout


def test_help_says_how_far_disjoint_goes(cli: Cli) -> None:
    said = " ".join(cli("op", "mul_mat_id", "--help").stdout.split())
    assert "disjoint, as far as the experts last" in said


def test_help_and_version(cli: Cli) -> None:
    assert "Exit status: 0" in cli("--help").stdout
    assert cli("--version").stdout.startswith("ggmlprobe, version ")


def test_devices(cli: Cli, lib_path: str) -> None:
    done = cli("devices", "--lib", lib_path)
    assert done.returncode == 0
    assert f"library: {lib_path} (--lib)" in done.stdout
    assert "version: " in done.stdout
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("types: "))
    assert {"f32", "f16", "q4_0", "q8_0"} <= set(line.split())
    assert "GiB free" in done.stdout
    bufts = [line for line in done.stdout.splitlines() if "buffer types: " in line]
    assert any("CPU" in line for line in bufts)


def test_preset_list(cli: Cli) -> None:
    done = cli("preset", "list")
    assert done.returncode == 0
    assert "issue-28111: 3 cases at widths 1,2,3,4,5,8" in done.stdout
    assert "pr-28108: 18 cases at widths 1,2,3,4" in done.stdout
    assert done.stdout.count("source:") >= 9
