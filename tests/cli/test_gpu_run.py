"""`ggmlprobe gpu-run`: whole runs on the CPU, and of small steps on the stand-in for a GPU."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ggmlprobe import gpu_steps
from ggmlprobe.cli.gpu_run import command_of

Cli = Callable[..., subprocess.CompletedProcess[str]]

# the steps of gpu_steps.py, replaced by small ones; then the command line as it is
SMALL_STEPS = """
import sys
from dataclasses import replace
from ggmlprobe import gpu_steps
from ggmlprobe.__main__ import main

def step(name, command, share=1):
    return gpu_steps.Step(name, tuple(command.split()) + ("--m", "64", "--k", "256"), share)

gpu_steps.PROBES = (
    step("product", "op mul_mat --widths 1-8 --kernels"),
    step("wrong", "op mul_mat --type q9_9"),
    step("endless", "op mul_mat --seeds 1-99999", ENDLESS),
    step("threshold", "threshold mul_mat --widths 1,5 --no-time"),
    # a row is kept when its case is through
    gpu_steps.Step("many", (
        "op", "mul_mat", "--widths", "1-8", "--k", "256", "--m", ",".join(map(str, range(64, 9999)))
    ), 1),
)
gpu_steps.OFFLOAD = step("offload", "op mul_mat --widths 1,40")
gpu_steps.OFFLOAD = replace(gpu_steps.OFFLOAD, offload=True)
graphs = "--set-env-b GGML_CUDA_DISABLE_GRAPHS=1"
gpu_steps.SETTINGS = (step("ab", f"ab mul_mat --widths 1,6 --hot {graphs}"),)
main()
"""


def attempts(folder: Path) -> list[dict[str, Any]]:
    """All but the first line, which says what they ran with."""
    return [json.loads(line) for line in (folder / "gpu-run.jsonl").read_text().splitlines()][1:]


def test_without_a_gpu_one_line_says_so(cli: Cli, tmp_path: Path) -> None:
    done = cli("gpu-run", "out")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("ggmlprobe: no GPU: this library has CPU")
    assert "--device" in line
    assert not (tmp_path / "out").exists()


def test_a_gpu_without_a_driver_says_why(cuda: Cli) -> None:
    done = cuda("gpu-run", "out", env={"STANDIN_DEVICES": "0"})
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "no GPU: this library has CPU; backend cuda" in line
    assert "libcuda.so.1" in line


def test_an_unknown_step_is_refused_with_those_there_are(cli: Cli) -> None:
    done = cli("gpu-run", "out", "--device", "CPU", "--only", "issue-28112")
    assert done.returncode == 2
    assert "no step issue-28112 on CPU: there are issue-28111, pr-28108," in done.stderr


def test_a_whole_run_on_the_cpu_is_kept_and_not_run_again(
    cli: Cli, tmp_path: Path, lib_path: str
) -> None:
    command = ["gpu-run", "out", "--device", "cpu", "--threads", "1", "--only", "issue-28111"]
    done = cli(*command, timeout=400)
    assert done.returncode in (0, 1), done.stderr
    folder = tmp_path / "out"
    record = json.loads((folder / "issue-28111.json").read_text())
    assert len(record["results"]) == 18
    assert record["configs"][0]["threads"] == 1
    assert not record["interrupted"]
    for name in ("README.md", "gpu-run.md", "issue-28111.md", "issue-28111.jsonl"):
        assert (folder / name).stat().st_size
    assert "[issue-28111](issue-28111.md)" in (folder / "README.md").read_text()
    made = attempts(folder)
    assert made[-1]["status"] == done.returncode
    again = cli(*command)
    assert again.returncode == done.returncode
    assert attempts(folder) == made
    assert "1 of 1 steps finished" in again.stderr
    before = {path: path.read_bytes() for path in folder.iterdir()}
    other = cli("gpu-run", "out", "--device", "CPU", "--threads", "2", "--only", "issue-28111")
    assert other.returncode == 2
    assert other.stderr == ("ggmlprobe: out holds a run with threads 1: name another folder\n")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    # another way to write it is no other run
    again = cli("gpu-run", folder, *command[2:], "--lib", lib_path)
    assert again.returncode == done.returncode
    assert attempts(folder) == made


def small(cuda_lib: Path, cuda_env: dict[str, str], folder: Path, **more: Any) -> Any:
    """A process that runs SMALL_STEPS."""
    script = SMALL_STEPS.replace("ENDLESS", more.pop("endless", "0"))
    command = [sys.executable, "-c", script, "gpu-run", "out", *more.pop("options", [])]
    env = cuda_env | {"GGMLPROBE_LIB": str(cuda_lib)}
    return subprocess.Popen(command, cwd=folder, env=env, text=True, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)  # fmt: skip


@pytest.fixture
def cuda_env(cli_env: dict[str, str], tmp_path: Path) -> dict[str, str]:
    standin = str(Path(__file__).parents[1] / "standin")
    path = os.pathsep.join([cli_env["PYTHONPATH"], standin])
    return cli_env | {"PYTHONPATH": path, "XDG_STATE_HOME": str(tmp_path / "state")}


def test_every_step_runs_on_the_first_gpu_and_one_that_fails_stops_no_other(
    cuda_lib: Path, cuda_env: dict[str, str], tmp_path: Path
) -> None:
    options = ["--only", "product,wrong,threshold,offload,ab"]
    run = small(cuda_lib, cuda_env, tmp_path, options=options)
    _, stderr = run.communicate(timeout=400)
    assert run.returncode == 2, stderr
    folder = tmp_path / "out"
    made = {each["step"]: each for each in attempts(folder)}
    assert {name: each["status"] for name, each in made.items()} == {
        "product": 1, "wrong": 2, "threshold": 1, "offload": 1, "ab": 1,
    }  # fmt: skip
    assert "q9_9" in made["wrong"]["said"]
    assert made["wrong"]["said"] in stderr
    for name in ("product", "threshold", "offload", "ab"):
        record = json.loads((folder / f"{name}.json").read_text())
        device = "CUDA0+CPU" if name == "offload" else "CUDA0"
        assert {config["device"]["name"] for config in record["configs"]} == {device}
        assert (folder / f"{name}.jsonl").exists()
    kernels = json.loads((folder / "product.json").read_text())["results"][7]["kernels"]
    assert kernels[0]["name"] == "void mul_mat_q<(ggml_type)12>()"
    log = (folder / "gpu-run.md").read_text()
    assert "4 of 5 steps finished; not finished: wrong" in log
    assert "- kernel names: yes" in log


def test_a_step_over_its_share_keeps_its_rows_and_goes_on_where_it_was(
    cuda_lib: Path, cuda_env: dict[str, str], tmp_path: Path
) -> None:
    options = ["--only", "product,endless", "--minutes", "0.5"]

    def in_background() -> None:
        """As a shell script's `&` starts it, which must not make the step deaf."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    run = small(cuda_lib, cuda_env, tmp_path, options=options, preexec_fn=in_background)
    _, stderr = run.communicate(timeout=400)
    assert run.returncode == 1, stderr
    made = [(each["step"], each["status"]) for each in attempts(tmp_path / "out")]
    assert made[0] == ("product", 1)
    assert ("endless", 130) in made
    assert "not finished: endless" in stderr
    assert "cut short: rows are missing" in (tmp_path / "out" / "gpu-run.md").read_text()


def begun(run: Any, journal: Path, rows: int = 0) -> None:
    """Wait until a step has so many rows."""
    while not journal.exists() or journal.read_text().count("\n") < 1 + rows:
        assert run.poll() is None, run.communicate()
        time.sleep(0.1)


def steps_of(folder: Path) -> list[str]:
    """Command lines of steps that run in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        # it may end meanwhile
        with contextlib.suppress(OSError):
            if Path(os.readlink(process / "cwd")) == folder:
                found.append((process / "cmdline").read_text())
    # the library's own process follows it a moment later
    return [line for line in found if "--resume" in line]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_step_that_runs_and_a_later_run_does_the_rest(
    cuda_lib: Path, cuda_env: dict[str, str], tmp_path: Path, number: int
) -> None:
    def heeding() -> None:
        # whatever these tests were started with: nohup has SIGHUP ignored
        signal.signal(number, signal.SIG_DFL)

    only = ["--only", "endless,threshold"]
    run = small(
        cuda_lib, cuda_env, tmp_path, options=only, endless="1", preexec_fn=heeding
    )  # fmt: skip
    begun(run, tmp_path / "out" / "endless.jsonl")
    run.send_signal(number)
    _, stderr = run.communicate(timeout=100)
    assert run.returncode == 130, stderr
    assert [(e["step"], e["status"]) for e in attempts(tmp_path / "out")] == [("endless", 130)]
    assert "0 of 2 steps finished; not finished: endless, threshold" in stderr
    assert not steps_of(tmp_path)
    run = small(cuda_lib, cuda_env, tmp_path, options=["--only", "threshold"], endless="1")
    _, stderr = run.communicate(timeout=400)
    assert run.returncode == 1, stderr
    made = [(each["step"], each["status"]) for each in attempts(tmp_path / "out")]
    assert made == [("endless", 130), ("threshold", 1)]


def test_a_second_ctrl_c_kills_the_step_and_costs_nothing_that_was_done(
    cuda_lib: Path, cuda_env: dict[str, str], tmp_path: Path
) -> None:
    # a step that is deaf to SIGINT, so that the second one must end it
    deaf = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(deaf)
    path = os.pathsep.join([str(tmp_path / "site"), cuda_env["PYTHONPATH"]])
    only = ["--only", "many,ab"]
    run = small(cuda_lib, cuda_env | {"PYTHONPATH": path}, tmp_path, options=only)
    begun(run, tmp_path / "out" / "many.jsonl", rows=9)
    for _ in range(2):
        run.send_signal(signal.SIGINT)
        time.sleep(0.45)
    _, stderr = run.communicate(timeout=100)
    assert run.returncode == 130, stderr
    (made,) = attempts(tmp_path / "out")
    assert (made["step"], made["status"], made["finding"]) == ("many", -9, True)
    assert "cut short: rows are missing; findings so far" in stderr
    assert "0 of 2 steps finished" in (tmp_path / "out" / "gpu-run.md").read_text()
    assert not steps_of(tmp_path)


def test_a_hangup_that_nohup_ignores_ends_nothing(
    cuda_lib: Path, cuda_env: dict[str, str], tmp_path: Path
) -> None:
    def nohup() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    run = small(
        cuda_lib, cuda_env, tmp_path, options=["--only", "threshold"], preexec_fn=nohup
    )  # fmt: skip
    begun(run, tmp_path / "out" / "threshold.jsonl")
    run.send_signal(signal.SIGHUP)
    _, stderr = run.communicate(timeout=400)
    assert run.returncode == 1, stderr


def test_findings_of_a_run_whose_steps_were_all_cut_short_are_its_status(
    cuda_lib: Path, cuda_env: dict[str, str], tmp_path: Path
) -> None:
    options = ["--only", "many", "--minutes", "0.35"]
    run = small(cuda_lib, cuda_env, tmp_path, options=options)
    run.communicate(timeout=400)
    made = attempts(tmp_path / "out")
    assert made
    assert {each["status"] for each in made} == {130}
    rows = json.loads((tmp_path / "out" / "many.json").read_text())["results"]
    assert (run.returncode, any(row["verdict"] != "INVARIANT" for row in rows)) == (1, True)


def test_a_run_without_time_has_not_passed(cli: Cli, tmp_path: Path) -> None:
    done = cli("gpu-run", "out", "--device", "CPU", "--minutes", "0.05")
    assert done.returncode == 2
    assert "0 of " in done.stderr
    # and the folder is that run's
    done = cli("gpu-run", "out", "--device", "CPU", "--minutes", "0.05", "--threads", "17")
    assert "out holds a run with threads " in done.stderr
    # of a library that was rebuilt meanwhile
    state = tmp_path / "out" / "gpu-run.jsonl"
    setup = json.loads(state.read_text())
    state.write_text(json.dumps(setup | {"identity": "another"}) + "\n")
    done = cli("gpu-run", "out", "--device", "CPU", "--minutes", "0.05")
    assert (done.returncode, done.stderr) == (
        2, "ggmlprobe: out holds a run with identity another: name another folder\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", ["gpu-run.md", "pr-28108.json", "pr-28108.md", "pr-28108.jsonl", "gpu-run.jsonl"]
)
@pytest.mark.parametrize("text", ["notes\n", "notes", ""])
def test_a_folder_with_another_file_of_that_name_is_refused(
    cli: Cli, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text(text)
    done = cli("gpu-run", "out", "--device", "CPU", "--only", "issue-28111")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"ggmlprobe: out/{name} is no")
    assert line.endswith(": name another folder")
    assert {path.name: path.read_text() for path in (tmp_path / "out").iterdir()} == {name: text}


def test_a_library_whose_kernels_have_no_names_is_run_without(
    cli: Cli, tmp_path: Path, foreign_libs: dict[str, Path]
) -> None:
    options = ["--device", "CPU", "--lib", foreign_libs["wheel"], "--only", "issue-28111"]
    done = cli("gpu-run", "out", *options, timeout=400)
    assert done.returncode in (0, 1), done.stderr
    line = "kernel names: no, steps run without --kernels: "
    assert line in done.stderr
    assert "is stripped" in done.stderr
    assert line in (tmp_path / "out" / "gpu-run.md").read_text()
    assert (
        "--kernels"
        not in json.loads((tmp_path / "out" / "issue-28111.json").read_text())["command"]
    )


def test_weights_beside_the_cpu_where_the_device_has_it_already() -> None:
    for device in ("CUDA0", "CUDA0+CPU"):
        words = command_of(gpu_steps.OFFLOAD, device, [], Path("out"))
        assert words[words.index("--device") + 1] == "CUDA0+CPU"


def test_files_that_are_not_its_own_are_kept_and_cost_no_run(
    cuda_lib: Path, cuda_env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "README.md").write_text("mine\n")
    run = small(cuda_lib, cuda_env, tmp_path, options=["--only", "product"])
    _, stderr = run.communicate(timeout=400)
    assert run.returncode == 1, stderr
    assert (tmp_path / "out" / "README.md").read_text() == "mine\n"
    assert "no index: out/README.md is not of a gpu-run and is kept" in stderr
    assert "--force" not in stderr
    assert "1 of 1 steps finished" in stderr


def test_a_folder_that_cannot_be_made_is_one_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = cli("gpu-run", "file/out", "--device", "CPU")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.endswith("file/out: Not a directory: name another folder")
