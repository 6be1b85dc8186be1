"""The command's first and last moments: imports, and errors that nobody foresaw."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., subprocess.CompletedProcess[str]]
# stands in for a module that the command line imports: -m puts the current folder first
INTERRUPTED = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(20)\n"
SWALLOWED = f"try:\n    exec({INTERRUPTED!r})\nexcept BaseException:\n    pass\n"
BROKEN = "raise RuntimeError('two\\nlines')\n"


@pytest.mark.parametrize("module", [INTERRUPTED, SWALLOWED])
def test_ctrl_c_while_modules_load_is_silent(cli: Cli, tmp_path: Path, module: str) -> None:
    (tmp_path / "click.py").write_text(module)
    done = cli("--help")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("arguments", "status"), [(["devices"], 2), (["op", "mul_mat", "--git-bisect"], 128)]
)
def test_unforeseen_error_is_one_line_and_no_finding(
    cli: Cli, tmp_path: Path, arguments: list[str], status: int
) -> None:
    (tmp_path / "click.py").write_text(BROKEN)
    done = cli(*arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr == (
        "ggmlprobe: internal error: RuntimeError: two lines "
        "(report it; GGMLPROBE_TRACEBACK=1 shows where)\n"
    )


def test_unforeseen_error_of_a_command(cli: Cli, tmp_path: Path) -> None:
    # `preset list` prints, then meets it
    (tmp_path / "sitecustomize.py").write_text(
        "import ggmlprobe.presets as p\np.PRESETS['last'] = None\n"
    )
    done = cli("preset", "list", env={"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[1]}"})
    assert done.returncode == 2
    assert "internal error: AttributeError" in done.stderr
    assert done.stderr.count("\n") == 1


def test_traceback_on_demand(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text(BROKEN)
    done = cli("devices", env={"GGMLPROBE_TRACEBACK": "1"})
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert "click.py" in done.stderr
