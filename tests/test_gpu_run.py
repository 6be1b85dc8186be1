"""Steps, their order and time, and what goes on, on a clock and commands that are planted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from ggmlprobe import gpu_run
from ggmlprobe.cli import main
from ggmlprobe.errors import RecordError, UsageError
from ggmlprobe.gpu_run import GRACE, Attempt, Ended, Setup, play
from ggmlprobe.gpu_steps import OFFLOAD, PROBES, SETTINGS, Step, steps
from ggmlprobe.presets import PRESETS

COMMANDS = {name: f"ggmlprobe {name}" for name in "abcd"}


class Machine:
    """A clock that commands move; each is (seconds it needs, status at its end)."""

    def __init__(self, needs: dict[str, tuple[float, int]]) -> None:
        self.now, self.needs = 100.0, dict(needs)
        self.log: list[tuple[str, float]] = []
        self.stop_at = ""

    def clock(self) -> float:
        return self.now

    def run(self, step: Step, limit: float) -> Ended:
        self.log.append((step.name, limit))
        need, status = self.needs[step.name]
        spent = min(need, limit)
        self.now += spent
        # what has been done is kept in the journal
        self.needs[step.name] = (need - spent, status)
        if step.name == self.stop_at:
            return Ended(130, "interrupted", stop=True)
        # rows of what will be a finding hold it before the end
        return Ended(status if spent == need else 130, f"{step.name} said", status == 1)


def played(machine: Machine, seconds: float, shares: dict[str, float]) -> list[Attempt]:
    todo = [Step(name, ("op",), share) for name, share in shares.items()]
    return list(play(todo, COMMANDS, seconds, machine.clock, machine.run))


def test_each_runs_once_in_order_where_there_is_time() -> None:
    machine = Machine({"a": (10, 0), "b": (20, 1), "c": (5, 0)})
    made = played(machine, 1000, {"a": 0.4, "b": 0.4, "c": 0.4})
    assert [(each.step, each.status, each.seconds) for each in made] == [
        ("a", 0, 10), ("b", 1, 20), ("c", 0, 5),
    ]  # fmt: skip
    assert [limit for _, limit in machine.log] == [400, 400, 400]
    assert (made[0].args, made[0].command) == ("op", "ggmlprobe a")


def test_a_step_over_its_share_waits_for_the_others_and_then_goes_on() -> None:
    machine = Machine({"a": (150, 1), "b": (30, 0)})
    made = played(machine, 1000, {"a": 0.1, "b": 0.9})
    assert [(each.step, each.status, each.seconds) for each in made] == [
        ("a", 130, 100), ("b", 0, 30), ("a", 1, 50),
    ]  # fmt: skip
    assert [each.finding for each in made] == [True, False, True]


def test_where_few_are_left_they_have_all_of_the_time() -> None:
    machine = Machine({"a": (700, 0), "b": (100, 0)})
    made = played(machine, 1000, {"a": 0.03, "b": 0.01})
    assert [(each.step, each.status) for each in made] == [("a", 0), ("b", 0)]
    assert machine.log == [("a", 750), ("b", 250)]


def test_nothing_begins_that_could_not_end_in_time() -> None:
    machine = Machine({"a": (1000, 0), "b": (1000, 0), "c": (1000, 0)})
    made = played(machine, 100, {"a": 0.5, "b": 0.5, "c": 0.5})
    assert [each.step for each in made] == ["a", "b"]
    # the last one and its grace end in time
    assert machine.log[-1] == ("b", 100 - 50 - GRACE)
    assert machine.now + GRACE <= 100.0 + 100


def test_what_failed_or_died_at_once_is_not_run_again() -> None:
    machine = Machine({"a": (3, 2), "b": (3, -11), "c": (3, -9)})
    made = played(machine, 1000, {"a": 0.1, "b": 0.1, "c": 0.1})
    assert [(each.step, each.status) for each in made] == [("a", 2), ("b", -11), ("c", -9)]
    assert made[0].said == "a said"


def test_a_step_that_was_killed_at_its_limit_goes_on() -> None:
    machine = Machine({"a": (150, 0), "b": (1, 0)})
    inner = machine.run

    def deaf(step: Step, limit: float) -> Ended:
        ended = inner(step, limit)
        return Ended(-9) if ended.status == 130 else ended

    todo = [Step("a", ("op",), 0.1), Step("b", ("op",), 0.9)]
    made = list(play(todo, COMMANDS, 1000, machine.clock, deaf))
    assert [(each.step, each.status) for each in made] == [("a", -9), ("b", 0), ("a", 0)]


def test_an_interrupted_run_begins_nothing_more() -> None:
    machine = Machine({"a": (3, 0), "b": (3, 0)})
    machine.stop_at = "a"
    assert [each.step for each in played(machine, 1000, {"a": 0.1, "b": 0.1})] == ["a"]


A, B, C = (Step(name, ("op",), 0.1) for name in "abc")


def attempt(
    name: str, status: int, args: str = "op", said: str = "", finding: bool = False
) -> Attempt:
    return Attempt(name, args, COMMANDS[name], status, 2.0, said, finding)


SETUP = Setup("CPU", "a CPU", "/lib", "2df5", 2)


def test_finished_steps_are_kept_unless_their_arguments_are_others() -> None:
    earlier = [attempt("a", 130), attempt("a", 1), attempt("b", 130), attempt("c", 0, "another")]
    assert gpu_run.unfinished([A, B, C], earlier) == [B, C]


def test_what_a_step_did_with_other_arguments_is_not_told_of_it() -> None:
    other = [attempt("a", 2, "another"), attempt("a", 0), attempt("a", 1, "another")]
    assert gpu_run.unfinished([A], other) == []
    assert gpu_run.exit_status([A], other) == 0
    assert "| all invariant |           0 |       2 |" in gpu_run.summary([A], other, [])
    assert gpu_run.exit_status([A], other[:1]) == 2
    assert "| not reached |" in gpu_run.summary([A], other[:1], [])


def test_attempts_survive_on_disk_and_a_torn_line_does_not_matter(tmp_path: Path) -> None:
    file = tmp_path / "gpu-run.jsonl"
    assert gpu_run.load(file) == (None, [])
    made = [attempt("a", 0), attempt("b", 2, said="no device\u00e9", finding=True)]
    file.write_text(gpu_run.dump(SETUP, made) + '{"step": "c", "comm')
    assert gpu_run.load(file) == (SETUP, made)


OURS = gpu_run.dump(SETUP, [])


@pytest.mark.parametrize(
    "text",
    ["", "mine", "{}\n", "[]\n", "no\n", OURS.strip(), json.dumps({"step": "a"}) + "\n",
     OURS + '{"step": "a", "more": 1}\n', OURS + "[]\n"],
)  # fmt: skip
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "gpu-run.jsonl").write_text(text)
    with pytest.raises(RecordError, match="is no list of steps"):
        gpu_run.load(tmp_path / "gpu-run.jsonl")


def test_setups_differ_in_what_is_told() -> None:
    assert SETUP.other_than(Setup("CPU", "a CPU", "/lib", "2df5", 2)) == ""
    assert SETUP.other_than(Setup("CUDA0", "a CPU", "/lib", "2df5", 1)) == "device CPU, threads 2"
    assert SETUP.other_than(Setup("CPU", "b", "/b", "2df5", 2)) == "description a CPU, lib /lib"
    # a rebuild
    assert SETUP.other_than(Setup("CPU", "a CPU", "/lib", None, 2)) == "identity 2df5"


def test_the_log_says_what_came_of_each_step() -> None:
    attempts = [attempt("a", 130), attempt("a", 1), attempt("b", 2, said="ggmlprobe: no device X")]
    text = gpu_run.summary([A, B, C], attempts, ["device: CUDA0"])
    rows = {line.split("|")[1].strip(): line for line in text.splitlines() if line[:1] == "|"}
    assert "- device: CUDA0\n- 1 of 3 steps finished; not finished: b, c\n" in text
    assert [cell.strip() for cell in rows["a"].split("|")[2:6]] == [
        "findings", "1", "4", "`ggmlprobe a`",
    ]  # fmt: skip
    assert "failed" in rows["b"]
    assert "`ggmlprobe: no device X`" in rows["b"]
    assert "not reached" in rows["c"]


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        ([0, 0, 0], 0), ([0, 1, 0], 1), ([1], 1), ([1, 130], 1), ([1, 2], 2), ([1, -11], 2),
        # no step came to its end
        ([], 2), ([130], 2), ([-9, 130, 130], 2),
        # so far
        ([0], 3), ([0, 130, 0], 3), ([0, 0, -9], 3),
    ],
)  # fmt: skip
def test_exit_status(statuses: list[int], status: int) -> None:
    attempts = [attempt(name, each) for name, each in zip("abc", statuses, strict=False)]
    assert gpu_run.exit_status([A, B, C], attempts) == status


@pytest.mark.parametrize("status", [130, -9])
def test_a_finding_of_a_step_that_was_cut_short_is_one(status: int) -> None:
    cut = attempt("a", status, finding=True)
    assert gpu_run.exit_status([A], [cut]) == gpu_run.exit_status([A, B], [cut]) == 1
    assert gpu_run.exit_status([A, B], [cut, attempt("b", 0)]) == 1
    assert gpu_run.exit_status([A, B], [cut, attempt("b", 2)]) == 2
    assert "cut short: rows are missing; findings so far" in gpu_run.summary([A], [cut], [])


def test_a_later_attempt_holds() -> None:
    assert gpu_run.exit_status([A], [attempt("a", 2), attempt("a", 0)]) == 0


EVERY = [*PROBES, OFFLOAD, *SETTINGS]


def test_every_preset_is_a_step_and_names_are_those_of_files() -> None:
    names = [step.name for step in EVERY]
    assert len(set(names)) == len(names)
    assert set(PRESETS) <= set(names)
    assert all(name.replace("-", "").replace("_", "").replace(".", "").isalnum() for name in names)
    assert names[:3] == ["issue-28111", "pr-28108", "sweep-mul_mat"]


@pytest.mark.parametrize("step", EVERY, ids=lambda step: step.name)
def test_every_step_is_a_command_there_is(step: Step) -> None:
    """Parsed to its end by the command line itself; a wrong option would be refused."""
    command: click.Command = main
    left = [*step.args, "--resume", "x.jsonl", "--export-json", "x.json", "--export-md", "x.md"]
    left += ["--force", "--timeout", "60", "--device", "CUDA0"]
    while isinstance(command, click.Group):
        _, found, left = command.resolve_command(click.Context(command), left)
        assert found is not None
        command = found
    command.make_context(step.name, left)


def test_a_device_gets_the_steps_that_say_something_about_it() -> None:
    names: Callable[[str], list[str]] = lambda backend: [step.name for step in steps(backend)]  # noqa: E731
    assert names("CUDA") == names("ROCm") == [step.name for step in EVERY]
    assert not [name for name in names("Vulkan") if name.startswith(("threshold", "ab-"))]
    assert "offload" in names("Vulkan")
    assert "offload" not in names("CPU")
    assert "threshold-mul_mat" in names("CPU")
    assert "threshold-flash_attn" not in names("CPU")


def test_only_some_steps_in_their_order() -> None:
    chosen = steps("CUDA", ["pr-28108", "issue-28111"])
    assert [step.name for step in chosen] == ["issue-28111", "pr-28108"]
    with pytest.raises(UsageError, match="no step mla2 on CUDA: there are issue-28111, "):
        steps("CUDA", ["mla2"])


def test_without_kernel_names_no_step_asks_for_them() -> None:
    named, without = steps("CPU"), steps("CPU", kernels=False)
    assert "threshold-mul_mat" in [step.name for step in named]
    assert [step.name for step in without] == [
        step.name for step in named if not step.name.startswith("threshold")
    ]
    assert any("--kernels" in step.args for step in named)
    assert not any("--kernels" in step.args for step in without)
