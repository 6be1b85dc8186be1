"""Bisection of a real library with planted boundaries, and of one that has its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ggmlprobe.configs import configs_of
from ggmlprobe.dispatch.axes import Axis, bisect, check_axis
from ggmlprobe.dispatch.bisect import LIMIT
from ggmlprobe.errors import UsageError
from ggmlprobe.gather import Gathered
from ggmlprobe.ops.base import Op
from ggmlprobe.ops.flash_attn import FlashAttn
from ggmlprobe.ops.mul_mat import MulMat
from ggmlprobe.record import AxisRun, Bisection, Config, Header, Record, collect_environment
from ggmlprobe.runner import Case, Runner
from ggmlprobe.worker.protocol import Spec
from ggmlprobe.worker.supervisor import Worker

PRODUCT = MulMat(type_a="f32", m=8, k=64)
Env = Mapping[str, str | None]


@dataclass
class Seen:
    """A record with one bisection."""

    record: Record

    @property
    def bisection(self) -> Bisection:
        (only,) = self.record.bisections
        return only

    @property
    def runs(self) -> list[AxisRun]:
        return self.record.runs

    @property
    def letters(self) -> dict[int, str]:
        return {run.value: run.letter for run in self.runs}


@contextmanager
def started(spec: Spec, threads: Sequence[int]) -> Iterator[tuple[Worker, list[Config], Any]]:
    worker = Worker(spec, 60.0)
    try:
        ready = worker.ready()
        yield worker, configs_of(ready, "CPU", (None,), threads, None, {}), ready["types"]
    finally:
        worker.stop()


Bisect = Callable[..., Seen]


@pytest.fixture
def along(lib_path: str) -> Bisect:
    """Bisect a case in a child of its own."""

    def run(
        axis: Axis, op: Op = PRODUCT, op_name: str = "mul_mat", env: Env | None = None,
        interpose: Sequence[Path] = (), widths: tuple[int, ...] = (1,),
        threads: Sequence[int] = (1,), **given: Any,
    ) -> Seen:  # fmt: skip
        spec = Spec(lib_path, dict(env or {}), None, [str(path) for path in interpose])
        with started(spec, threads) as (worker, configs, types):
            runner = Runner({config.id: worker for config in configs}, (1,), **given)
            tokens = axis.last if axis.name == "width" else None
            case = Case(op_name, op, widths, tokens)
            blocks = {name: info["blck_size"] for name, info in types.items()}
            gathered = Gathered()
            for row in bisect(runner, configs, [case], axis, blocks):
                gathered.take(row)
        header = Header(1, "bisect", configs, collect_environment())
        return Seen(gathered.record(header, interrupted=False))

    return run


@pytest.fixture
def plant(along: Bisect, planted: Path) -> Bisect:
    """Bisect the widths of the product with something planted."""

    def run(what: str, last: int = 64, exhaustive: bool = False, **given: Any) -> Seen:
        axis = Axis("width", 1, last, exhaustive=exhaustive)
        return along(axis, env={"PLANTED": what}, interpose=[planted], **given)

    return run


@pytest.mark.parametrize("bound", [3, 5, 9, 12, 17, 31])
def test_planted_boundary_and_no_other(plant: Bisect, bound: int) -> None:
    seen = plant(f"reverse:{bound}:9999")
    found = seen.bisection
    assert found.boundaries == [[bound - 1, bound]]
    assert found.first_differing == bound
    assert (found.returning, found.periods, found.unsettled) == ({}, [], [])
    assert found.transitive
    assert {w: v for w, v in seen.letters.items() if v != "AB"[w >= bound]} == {}
    rows = {row.width: row for row in seen.record.results}
    assert all(rows[run.value].verdict == run.verdict for run in seen.runs)
    assert {run.verdict for run in seen.runs if run.letter == "B"} == {"MISMATCH"}


def test_all_planted_boundaries_at_once(plant: Bisect) -> None:
    bounds = [3, 5, 9, 12, 17, 31]
    ends = [*bounds[1:], 10000]
    what = ",".join(f"rotate:{a}:{b - 1}" for a, b in zip(bounds, ends, strict=True))
    seen = plant(what)
    assert seen.bisection.boundaries == [[bound - 1, bound] for bound in bounds]
    for width, letter in seen.letters.items():
        assert letter == "ABCDEFG"[sum(width >= bound for bound in bounds)]
    assert seen.bisection.returning == {}


def test_boundary_far_up_is_found_with_few_runs(plant: Bisect) -> None:
    found = plant("reverse:77:299,rotate:300:9999", last=320).bisection
    assert found.boundaries == [[76, 77], [299, 300]]
    assert (found.runs <= LIMIT, found.values) == (True, 320)
    assert found.runs == len(plant("reverse:77:299,rotate:300:9999", last=320).runs)


def test_class_that_comes_back(plant: Bisect) -> None:
    seen = plant("reverse:9:16")
    assert seen.bisection.boundaries == [[8, 9], [16, 17]]
    assert seen.bisection.returning == {"A": [1, 17]}
    assert set(seen.letters.values()) == {"A", "B"}


def test_parity(plant: Bisect) -> None:
    seen = plant("parity:2:9999")
    assert {letter for width, letter in seen.letters.items() if width % 2} == {"A"}
    assert {letter for width, letter in seen.letters.items() if width % 2 == 0} == {"B"}
    assert seen.bisection.periods[0] == [2, 1, 33]


def test_last_column_only(plant: Bisect) -> None:
    seen = plant("last:2:12", last=20)
    columns = {row.width: row.columns_differing for row in seen.record.results}
    assert columns == {w: [w - 1] if 2 <= w <= 12 else [] for w in range(1, 21)}
    assert seen.bisection.boundaries == [[w - 1, w] for w in range(2, 14)]
    assert {w for w, letter in seen.letters.items() if letter == "A"} == {1, *range(13, 21)}
    assert len(set(seen.letters.values())) == 12, "each of the widths is a class of its own"


def test_columns_in_groups_are_not_transitive(plant: Bisect) -> None:
    seen = plant("fours:1:9999", last=12)
    assert not seen.bisection.transitive
    assert seen.bisection.boundaries == [[3, 4], [7, 8], [11, 12]]


def test_hidden_between_equal_ends_is_not_claimed_absent(plant: Bisect) -> None:
    """42-46 are never run first: what is there shows only when every width is run."""
    hidden = plant("reverse:43:45").bisection
    assert hidden.boundaries == []
    assert [41, 47] in hidden.assumed
    assert hidden.first_differing is None
    assert (hidden.exhaustive, hidden.runs < hidden.values) == (False, True)
    every = plant("reverse:43:45", exhaustive=True).bisection
    assert every.boundaries == [[42, 43], [45, 46]]
    assert (every.assumed, every.runs) == ([], every.values)


def test_width_that_dies_has_its_verdict_for_a_class(plant: Bisect) -> None:
    seen = plant("abort:5:5", last=9)
    assert seen.letters == {w: "CRASH" if w == 5 else "A" for w in range(1, 10)}
    assert seen.bisection.boundaries == [[4, 5], [5, 6]]


def test_death_of_the_serial_runs_leaves_no_class(plant: Bisect) -> None:
    seen = plant("abort:1:1", last=4)
    assert set(seen.letters.values()) == {"CRASH"}
    assert seen.bisection.boundaries == []


def test_width_that_is_not_supported_does_not_differ(along: Bisect) -> None:
    seen = along(Axis("width", 1, 4), MulMat(type_a="f32", type_b="f16", m=8, k=64))
    assert set(seen.letters.values()) == {"UNSUPPORTED"}
    assert seen.bisection.first_differing is None


def test_axis_that_begins_above_1_still_compares_with_width_1(along: Bisect, planted: Path) -> None:
    seen = along(Axis("width", 6, 12), env={"PLANTED": "reverse:4:9"}, interpose=[planted])
    assert list(seen.letters) == list(range(6, 13))
    assert seen.bisection.boundaries == [[9, 10]]
    assert seen.bisection.first_differing == 6
    assert {row.width for row in seen.record.results} == {1, *range(6, 13)}


def test_all_requests_share_the_tokens_of_the_widest(plant: Bisect) -> None:
    seen = plant("reverse:300:9999", last=320)
    serial = next(row for row in seen.record.results if row.width == 1)
    assert len(serial.seeds[0].hashes) == 320
    late = next(row for row in seen.record.results if row.width == 299)
    assert late.seeds[0].hashes == serial.seeds[0].hashes[:299]


def test_rows_of_a_journal_are_not_run_again(plant: Bisect) -> None:
    first = plant("reverse:5:9999", last=20)
    again = plant("abort:4:9999", last=20, finished={r.key: r for r in first.record.results})
    assert again.letters == first.letters


def test_parameter_axis_compares_classes_not_bits(along: Bisect, planted: Path) -> None:
    seen = along(
        Axis("k", 1, 256, step=64), op=replace(PRODUCT, k=256), env={"PLANTED": "reverse:3:3"},
        interpose=[planted], widths=(1, 2, 3, 4),
    )  # fmt: skip
    assert seen.letters == dict.fromkeys((64, 128, 192, 256), "A")
    assert {tuple(run.width_classes) for run in seen.runs} == {("A", "A", "B", "A")}
    assert {run.verdict for run in seen.runs} == {"MISMATCH"}
    assert [run.case for run in seen.runs] == [
        replace(PRODUCT, k=k).case() for k in (64, 128, 192, 256)
    ]
    assert seen.bisection.boundaries == []


def test_parameter_axis_finds_where_behaviour_changes(along: Bisect, planted: Path) -> None:
    """k = 1 has one product an element: no order of summing to differ in."""
    seen = along(
        Axis("k", 1, 9), env={"PLANTED": "reverse:3:3"}, interpose=[planted], widths=(1, 3)
    )
    assert seen.letters[1] == "A"
    assert seen.letters[9] == "B"
    assert seen.bisection.first_differing in (2, 3)


def test_step_of_k_is_the_block_of_the_types(along: Bisect) -> None:
    seen = along(Axis("k", 1, 512), op=MulMat(type_a="q4_K", m=8, k=512), widths=(1, 2))
    assert list(seen.letters) == [256, 512]
    assert seen.bisection.step == 256


def test_kv_axis(along: Bisect) -> None:
    op = FlashAttn(nh=1, nr2=2, hsk=64, hsv=64, cells=512)
    seen = along(Axis("kv", 1, 512), op=op, op_name="flash_attn", widths=(1, 2))
    assert list(seen.letters) == [256, 512]
    assert all("cells=" in run.case for run in seen.runs)


def test_thread_axis_compares_bits_with_one_thread(along: Bisect, planted: Path) -> None:
    seen = along(
        Axis("threads", 1, 3), env={"PLANTED": "reverse:2:2"}, interpose=[planted],
        widths=(1, 2, 3), threads=(1, 2, 3),
    )  # fmt: skip
    # the interposer sums every element alone: threads cannot change a bit, the width does
    assert seen.letters == {1: "A", 2: "A", 3: "A"}
    assert {tuple(run.width_classes) for run in seen.runs} == {("A", "B", "A")}
    assert [run.config for run in seen.runs] == ["c0", "c1", "c2"]


def test_thread_axis_sees_other_bits(along: Bisect) -> None:
    """Whatever the CPU: letters must say just what the hashes say."""
    op = FlashAttn(nh=1, nr2=2, hsk=64, hsv=64, cells=512)
    seen = along(
        Axis("threads", 1, 3), op=op, op_name="flash_attn", widths=(1, 2), threads=(1, 2, 3)
    )
    bits: dict[str, list[Any]] = {}
    for row in seen.record.results:
        bits.setdefault(row.config, []).append(row.seeds[0].hashes)
    for a in seen.runs:
        for b in seen.runs:
            assert (a.letter == b.letter) == (bits[a.config] == bits[b.config])


def test_natural_boundary_goes_with_its_switch(along: Bisect) -> None:
    """Where tiled kernels take over at 8 rows, a switch of the library turns them off."""
    op = MulMat(type_a="q4_K", m=16, k=512)
    on = along(Axis("width", 1, 16), op=op).bisection
    off = along(Axis("width", 1, 16), op=op, env={"GGML_CPU_TILED_MM": "0"}).bisection
    if [7, 8] not in on.boundaries:
        pytest.skip("this library has no boundary at 8 for q4_K on this CPU")
    assert [7, 8] not in off.boundaries


@pytest.mark.parametrize(
    ("axis", "says"),
    [
        (Axis("kv", 1, 512), "mul_mat has no axis kv: it has width, threads, m, k"),
        (Axis("width", 8, 4), "--to 4 is below --from 8"),
    ],
)
def test_axis_that_cannot_be(axis: Axis, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check_axis(axis, {"m", "k"}, "mul_mat")


def test_axis_without_a_value() -> None:
    with pytest.raises(UsageError, match="no multiple of 256 from 1 to 255"):
        Axis("kv", 1, 255).values(256)
