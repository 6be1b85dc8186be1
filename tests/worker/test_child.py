"""What the child makes of errors, and what it does not touch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ggmlprobe.errors import ComputeFailed, OutOfMemory, Unsupported, UsageError
from ggmlprobe.ops.mul_mat import MulMat
from ggmlprobe.worker.child import failure, tuples


@pytest.mark.parametrize(
    ("error", "verdict", "detail"),
    [
        (Unsupported("no such op"), "UNSUPPORTED", "no such op"),
        (UsageError("k=3 is no multiple"), "UNSUPPORTED", "k=3 is no multiple"),
        (OutOfMemory("needs 9 GiB"), "OOM", "needs 9 GiB"),
        (MemoryError(), "OOM", "out of memory"),
        (ComputeFailed("FAILED"), "CRASH", "FAILED"),
    ],
)
def test_failure(error: Exception, verdict: str, detail: str) -> None:
    assert failure(error) == {"verdict": verdict, "detail": detail}


def test_params_survive_json() -> None:
    op = MulMat(type_a="f32", m=2, k=3, bs=(2, 1), per=(0, 2, 1, 3))
    assert MulMat(**tuples(json.loads(json.dumps(vars(op))))) == op


def test_what_the_library_prints_does_not_mix_with_events(
    cli_env: dict[str, str], lib_path: str, tmp_path: Path
) -> None:
    # a library that writes to stdout when it is opened
    source, noisy = tmp_path / "noisy.c", tmp_path / "noisy.so"
    source.write_text(
        "#include <stdio.h>\n__attribute__((constructor)) static void say(void)"
        '{ puts("{\\"event\\": \\"done\\"}"); fflush(stdout); }\n'
    )
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(noisy)], check=True)
    program = (
        "import sys; from ggmlprobe.worker.supervisor import Worker;"
        "from ggmlprobe.worker.protocol import Spec;"
        "worker = Worker(Spec(sys.argv[1], {}, None, [sys.argv[2]]), 60.0);"
        "print(worker.ready()['event']); worker.stop()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, lib_path, str(noisy)], capture_output=True, text=True,
        check=False, env=cli_env,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "ready\n"), done.stderr
