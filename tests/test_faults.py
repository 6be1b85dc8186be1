"""Planted faults: each changes exactly what it says, and leaves serial runs alone unless named."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from ggmlprobe.compare import UNWRITTEN
from ggmlprobe.errors import UsageError
from ggmlprobe.faults import FAULTS, HANG_SECONDS, readback

VALUES = (np.arange(1, 16, dtype=np.float32) / 7).reshape(3, 5)


def changed(fault: str | None, count: int, runs: int = 1) -> np.ndarray:
    """The last of some read-backs of `count` tokens."""
    read = readback(fault)
    for _ in range(runs):
        out = read(VALUES[:count].copy(), 0, count)
    return out


def differing(out: np.ndarray) -> list[tuple[int, int]]:
    """Positions whose bits are not those of VALUES."""
    same = out.view(np.uint32) == VALUES[: len(out)].view(np.uint32)
    return [(int(t), int(e)) for t, e in np.argwhere(~same)]


def test_no_fault_changes_nothing() -> None:
    assert differing(changed(None, 3)) == []


def test_one_ulp_in_the_last_token() -> None:
    out = changed("ulp-last-column", 3)
    assert differing(out) == [(2, 0)]
    assert out[2, 0] == np.nextafter(VALUES[2, 0], np.float32(np.inf))
    assert differing(changed("ulp-last-column", 2)) == [(1, 0)]


def test_a_sign_bit() -> None:
    out = changed("sign-bit", 3)
    assert differing(out) == [(0, 4)]
    assert out[0, 4] == -VALUES[0, 4]


def test_an_unwritten_element() -> None:
    out = changed("unwritten", 3)
    assert differing(out) == [(0, 0)]
    assert out.view(np.uint32)[0, 0] == UNWRITTEN


def test_a_nan() -> None:
    out = changed("nan", 3)
    assert differing(out) == [(0, 0)]
    assert np.isnan(out[0, 0])
    assert out.view(np.uint32)[0, 0] != UNWRITTEN


def test_lower_precision_keeps_eight_bits() -> None:
    out = changed("bf16", 3)
    assert len(differing(out)) > 10
    relative = np.abs(out / VALUES - 1)
    assert 0 < relative.max() < 2**-7


def test_a_wrong_sum() -> None:
    assert np.allclose(changed("wrong", 3), VALUES * 1.1)


SERIAL = ("unrepeatable-serial",)
IN_BLOCKS = ("ulp-last-column", "sign-bit", "unwritten", "nan", "bf16", "wrong")


@pytest.mark.parametrize("fault", sorted(FAULTS.keys() - set(SERIAL)))
def test_serial_runs_are_left_alone(fault: str) -> None:
    assert differing(changed(fault, 1, runs=4)) == []


@pytest.mark.parametrize("fault", IN_BLOCKS)
def test_every_block_is_changed_the_same_way(fault: str) -> None:
    once, twice = (changed(fault, 2, runs) for runs in (1, 2))
    assert once.tobytes() == twice.tobytes() != VALUES[:2].tobytes()


@pytest.mark.parametrize(
    ("fault", "count"), [("unrepeatable-serial", 1), ("unrepeatable-width", 3)]
)
def test_every_second_run_differs(fault: str, count: int) -> None:
    read = readback(fault)
    seen = []
    for _ in range(4):
        seen.append(bool(differing(read(VALUES[:count].copy(), 0, count))))
        # runs of the other kind in between do not count
        other = 3 if count == 1 else 1
        assert differing(read(VALUES[:other].copy(), 0, other)) == []
    assert seen == [False, True, False, True]


def test_a_fault_starts_afresh_each_time() -> None:
    assert differing(changed("unrepeatable-width", 3)) == []
    assert differing(changed("unrepeatable-width", 3)) == []


DIE = """
import resource, sys
import numpy as np
from ggmlprobe.faults import readback
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
read = readback(sys.argv[1])
read(np.ones((2, 5), np.float32), 0, 2)
print("alive", flush=True)
read(np.ones((3, 5), np.float32), 0, 3)
"""


@pytest.mark.parametrize(("fault", "number"), [("abort", signal.SIGABRT), ("kill", signal.SIGKILL)])
def test_deaths_come_at_width_three_only(fault: str, number: int) -> None:
    done = subprocess.run([sys.executable, "-c", DIE, fault], capture_output=True, check=False)
    assert done.stdout == b"alive\n"
    assert done.returncode == -number


def test_out_of_memory_and_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    changed("hang", 2)
    assert slept == []
    changed("hang", 3)
    assert slept == [HANG_SECONDS]
    changed("oom", 2)
    with pytest.raises(MemoryError):
        changed("oom", 3)


def test_an_unknown_fault_is_named_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="no fault typo: there are ulp-last-column, "):
        readback("typo")
