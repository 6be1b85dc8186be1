"""The selftest catches every planted fault, and says so where it would not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ggmlprobe import faults, selftest
from ggmlprobe.configs import configs_of
from ggmlprobe.record import Config
from ggmlprobe.verdict import Verdict
from ggmlprobe.worker.protocol import Spec
from ggmlprobe.worker.supervisor import Worker

# Run at the start of every process; BLIND names what is taken out of the measurement.
BLINDFOLD = """
import os
from ggmlprobe import compare, faults, probe
from ggmlprobe.compare import Difference
blind = os.environ.get("BLIND")
if blind == "compare":
    compare.compare = lambda serial, wide: Difference(elements=wide.size)
if blind == "specials":
    probe.specials = lambda *outputs: (0, 0)
if blind == "repeats":
    probe.Serial.repeats = lambda self, tokens: True
if blind == "seam":
    faults.readback = lambda name: faults.untouched
"""


def blind_path(tmp_path: Path) -> str:
    (tmp_path / "sitecustomize.py").write_text(BLINDFOLD)
    return os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))


@pytest.fixture
def missed(
    lib_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., set[str | None]]]:
    """The faults that are not caught where the child is blind, of those that do not kill it."""
    workers: list[Worker] = []
    quick = [e for e in selftest.EXPECTED if e.fault not in ("abort", "kill", "hang")]

    def run(blind: str | None) -> set[str | None]:
        monkeypatch.setattr(selftest, "EXPECTED", quick)
        env: dict[str, str | None] = {"BLIND": blind}
        # the child's own path is put before what it inherits
        monkeypatch.setenv("PYTHONPATH", blind_path(tmp_path))
        workers.append(Worker(Spec(lib_path, env), 60.0))
        config: Config = configs_of(workers[-1].ready(), "CPU", (None,), (1,), None, {})[0]
        return {e.fault for e, caught in selftest.run(workers[-1], config) if not caught}

    yield run
    for worker in workers:
        worker.stop()


def test_every_fault_is_expected_to_lead_somewhere() -> None:
    assert {e.fault for e in selftest.EXPECTED} == {None, *faults.FAULTS}
    planted = {verdict for e in selftest.EXPECTED for verdict in e.at.values()}
    assert planted == set(Verdict) - {Verdict.UNSUPPORTED}
    for expected in selftest.EXPECTED:
        clean = set(expected.at.values()) == {Verdict.INVARIANT}
        assert clean == (expected.fault is None)


def test_nothing_is_missed_with_open_eyes(missed: Callable[..., set[str | None]]) -> None:
    assert missed(None) == set()


def test_comparison_that_always_says_equal(missed: Callable[..., set[str | None]]) -> None:
    # NaN, repeats and deaths are seen without it
    assert missed("compare") == {"ulp-last-column", "sign-bit", "bf16", "wrong"}


def test_blind_to_nan(missed: Callable[..., set[str | None]]) -> None:
    assert missed("specials") == {"nan", "unwritten"}


def test_blind_to_serial_runs_that_do_not_repeat(missed: Callable[..., set[str | None]]) -> None:
    assert missed("repeats") == {"unrepeatable-serial"}


def test_faults_that_are_not_planted(missed: Callable[..., set[str | None]]) -> None:
    every = {e.fault for e in selftest.EXPECTED if e.fault not in ("abort", "kill", "hang")}
    assert missed("seam") == every - {None}


def test_command(cli: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = cli("selftest")
    assert (done.returncode, done.stderr) == (0, "")
    *lines, last = done.stdout.splitlines()
    assert lines == [f"ok     {e.says}" for e in selftest.EXPECTED]
    assert last == f"0 of {len(selftest.EXPECTED)} missed"


def test_command_says_what_is_missed(
    cli: Callable[..., subprocess.CompletedProcess[str]], cli_env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(BLINDFOLD)
    path = os.pathsep.join([str(tmp_path / "site"), cli_env["PYTHONPATH"]])
    done = cli("selftest", env={"PYTHONPATH": path, "BLIND": "compare"})
    assert (done.returncode, done.stderr) == (1, "")
    assert "MISSED 1 ULP in the last column\n" in done.stdout
    assert "ok     a NaN\n" in done.stdout
    assert done.stdout.endswith(f"4 of {len(selftest.EXPECTED)} missed\n")


def test_library_that_is_none(cli: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = cli("selftest", "--lib", "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_caught_needs_the_exact_column() -> None:
    (expected,) = (e for e in selftest.EXPECTED if e.fault == "ulp-last-column")
    assert not selftest.caught(expected, [])
