"""`ggmlprobe ab`: two sides in processes of their own, and what it refuses."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from ggmlprobe import record

Cli = Callable[..., subprocess.CompletedProcess[str]]
# one multiplication an element: the same bits whatever the kernel
EXACT = (
    "ab", "mul_mat", "--type", "f32", "--m", "16", "--k", "1", "--widths", "1-2", "--seeds", "1",
    "--threads", "1",
)  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "A and B are the same"),
        (["--lib-a", "lib", "--lib-b", "lib"], "A and B are the same"),
        (["--set-env-a", "X=", "--set-env-b", "X="], "A and B are the same"),
        (["--threads-a", "0"], "--threads-a"),
        (["--threads", "1,2"], "give --threads one value"),
        (["--threads-batch", "1,2"], "give --threads-batch one value"),
        (["--buft", "CPU,CPU_REPACK"], "give --buft one value"),
        (["--set-env-b", "X"], "write VAR=VALUE"),
        (["--set-env", "X=1"], "--set-env-a and --set-env-b"),
        (["--time"], "ab always times"),
        (["--lib-b", "no-such-library"], "no such file or folder"),
        (["--device-b", "no-such-device"], "no-such-device"),
        (["--set-env-b", "X=1", "--type", "q9_9"], "no type q9_9"),
        (["--set-env-b", "X=1", "--retry"], "--retry goes with --resume"),
    ],
)
def test_usage(cli: Cli, arguments: list[str], says: str) -> None:
    done = cli(*EXACT, *arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("ggmlprobe: ")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_two_builds(cli: Cli, foreign_libs: dict[str, Path], tmp_path: Path) -> None:
    other = str(foreign_libs["wheel"])
    done = cli(*EXACT, "--lib-b", other, "--export-json", "run.json")
    assert done.returncode == 0, done.stderr
    assert "- pass: 2/2 (A) -> 2/2 (B)" in done.stdout
    assert "- B: library " in done.stdout
    assert done.stderr == ""
    made = record.load(tmp_path / "run.json")
    jsonschema.validate(json.loads((tmp_path / "run.json").read_text()), record.schema())
    assert [config.id for config in made.configs] == ["c0", "c1"]
    assert made.configs[1].library.path == other
    assert [(row.config, row.width, row.verdict) for row in made.results] == [
        (side, width, "INVARIANT") for side in ("c0", "c1") for width in (1, 2)
    ]
    # one multiplication an element is the same in any build
    hashes = [[seed.hashes for seed in row.seeds] for row in made.results]
    assert hashes[:2] == hashes[2:]
    assert [each.width for each in made.ab or []] == [1, 2]
    times = [row.time for row in made.results]
    assert len({time.repeats for time in times if time}) == 1
    assert all(time and time.repeats >= 8 and not time.repeats % 2 for time in times)
    assert not list((tmp_path / "state").rglob("*.jsonl"))


def test_the_status_is_that_of_side_b(cli: Cli, planted: Path) -> None:
    arguments = ("ab", "mul_mat", "--type", "f32", "--m", "16", "--k", "256", "--widths", "1,2")
    quick = ("--seeds", "1", "--threads", "1", "--hot")
    env = {"LD_PRELOAD": str(planted)}
    differs, same = "PLANTED=boundary:2:2", "PLANTED=refuse:0:0"
    done = cli(*arguments, *quick, "--set-env-a", differs, "--set-env-b", same, env=env)
    assert "- pass: 1/2 (A) -> 2/2 (B)" in done.stdout, done.stderr
    assert done.returncode == 0
    done = cli(*arguments, *quick, "--set-env-a", same, "--set-env-b", differs, env=env)
    assert "- pass: 2/2 (A) -> 1/2 (B)" in done.stdout, done.stderr
    assert done.returncode == 1
    assert "- A: env PLANTED=refuse:0:0" in done.stdout
