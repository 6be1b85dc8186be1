"""From a child's events to rows: every verdict, deaths and failures, resumed rows, classes."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest

from ggmlprobe.caserun import CaseRun
from ggmlprobe.compare import Difference
from ggmlprobe.ops.flash_attn import FlashAttn
from ggmlprobe.ops.mul_mat import MulMat
from ggmlprobe.probe import Outcome
from ggmlprobe.record import Config, DeviceRecord, LibraryInfo, Result
from ggmlprobe.verdict import Verdict
from ggmlprobe.worker.protocol import Event

DEVICE = DeviceRecord("CPU", "Example CPU", "CPU", "CPU")
CONFIG = Config("c0", LibraryInfo("lib", "0.25.3", None, "--lib"), DEVICE, None, 1, 2)
OP = MulMat(type_a="q4_K", m=16, k=256)
WIDTHS, SEEDS, TOKENS = (1, 2, 4), (1, 2, 3), 4


def run_of(**changes: Any) -> CaseRun:
    fields: dict[str, Any] = {
        "config": CONFIG, "op_name": "mul_mat", "op": OP, "widths": WIDTHS, "seeds": SEEDS,
    }  # fmt: skip
    return CaseRun(**(fields | changes))


def wire(event: Event) -> Event:
    """Pass an event through JSON, as a child's line does."""
    passed: Event = json.loads(json.dumps(event))
    return passed


def outcome(seed: int, width: int, columns: tuple[int, ...] = (), **changes: Any) -> Event:
    """A clean outcome, or one in which one element of each of `columns` differs by `max_ulp`."""
    ulp = changes.pop("max_ulp", 3)
    difference = Difference(
        columns=list(columns), elements=16 * width, elements_differing=len(columns),
        max_ulp=ulp if columns else 0, ulp_histogram={"3-4": len(columns)} if columns else {},
        max_abs=1e-6 * ulp if columns else 0.0,
    )  # fmt: skip
    tokens = TOKENS if width == 1 else width
    made = Outcome(
        width=width, difference=difference,
        hashes=[f"{seed}-{t}{'-other' * (t in columns)}" for t in range(tokens)],
        serial_repeats=True, width_repeats=True, nan=0, unwritten=0,
        nmse_serial=2e-6, nmse_width=2e-6, max_err_scaled=0.5 if columns else 0.0,
    )  # fmt: skip
    made = dataclasses.replace(made, **changes)
    fields = dataclasses.asdict(made)
    return wire({"event": "outcome", "seed": seed, "outcome": fields, "compute_seconds": 0.25})


def failed(verdict: str, seed: int | None, width: int | None, detail: str = "why") -> Event:
    return wire({
        "event": "failed", "verdict": verdict, "seed": seed, "width": width, "detail": detail,
    })  # fmt: skip


def died(
    verdict: str, phase: str, seed: int | None, width: int | None, name: str | None = "SIGABRT"
) -> Event:
    return wire({
        "event": "died", "verdict": verdict, "phase": phase, "seed": seed, "width": width,
        "signal": name, "stderr": ["GGML_ASSERT(x) failed", "aborting"],
    })  # fmt: skip


def feed(run: CaseRun, *events: Event) -> list[Result]:
    return [row for event in events for row in run.take(event)]


def clean(run: CaseRun, skip: tuple[int, ...] = (), seeds: tuple[int, ...] = SEEDS) -> list[Result]:
    """Clean outcomes of every seed and width but `skip`, in the child's order."""
    widths = [1, *(w for w in run.widths if w > 1)]
    return feed(run, *[outcome(s, w) for s in seeds for w in widths if w not in skip])


# What makes each verdict: events at width 4 of seed 2 that take the place of its outcome.
CAUSES = {
    Verdict.CRASH: died("CRASH", "width", 2, 4),
    Verdict.TIMEOUT: died("TIMEOUT", "width", 2, 4, None),
    Verdict.OOM: failed("OOM", 2, 4),
    Verdict.UNSUPPORTED: failed("UNSUPPORTED", 2, 4),
    Verdict.NAN: outcome(2, 4, (0,), nan=1),
    Verdict.NONDETERMINISTIC: outcome(2, 4, (0,), width_repeats=False),
    Verdict.WRONG: outcome(2, 4, (0,), nmse_width=6e-4),
    Verdict.PRECISION: outcome(2, 4, (0,), nmse_width=2.1e-5),
    Verdict.MISMATCH: outcome(2, 4, (0,)),
    Verdict.INVARIANT: outcome(2, 4),
}


@pytest.mark.parametrize("verdict", Verdict)
def test_one_seed_of_three_gives_the_width_its_verdict(verdict: Verdict) -> None:
    run = run_of()
    rows = feed(run, *[outcome(1, w) for w in WIDTHS], outcome(2, 1), outcome(2, 2))
    assert rows == []
    rows = feed(run, CAUSES[verdict])
    # the child that died is started again with what is left
    rows += feed(run, *[outcome(3, w) for w in WIDTHS if (w, verdict) not in settled(run)])
    assert {row.width: row.verdict for row in rows} == {1: "INVARIANT", 2: "INVARIANT", 4: verdict}
    assert len(rows) == len(WIDTHS)
    assert run.pending() == []


def settled(run: CaseRun) -> set[tuple[int, str]]:
    return {(width, row.verdict) for width, row in run.results.items()}


JUDGED = [v for v in Verdict if v not in ("CRASH", "TIMEOUT", "OOM", "UNSUPPORTED")]


@pytest.mark.parametrize("lower", JUDGED)
@pytest.mark.parametrize("higher", JUDGED)
@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_the_worst_seed_decides(higher: Verdict, lower: Verdict, order: tuple[int, int]) -> None:
    run = run_of(widths=(1, 4), seeds=(1, 2))
    pair = dict(zip(order, (higher, lower), strict=True))
    events = [outcome(1, 1), {**CAUSES[pair[1]], "seed": 1}, outcome(2, 1), CAUSES[pair[2]]]
    (_, row) = feed(run, *events)
    assert row.verdict == min(higher, lower, key=list(Verdict).index)


def test_unwritten_in_the_serial_runs_is_a_nan_row() -> None:
    (row,) = feed(run_of(widths=(2,), seeds=(1,)), outcome(1, 2, unwritten=3))
    assert (row.verdict, row.unwritten, row.nan) == ("NAN", 3, 0)


def test_a_serial_run_that_does_not_repeat_is_nondeterministic() -> None:
    (row,) = feed(run_of(widths=(2,), seeds=(1,)), outcome(1, 2, serial_repeats=False))
    assert row.verdict == "NONDETERMINISTIC"
    assert not row.seeds[0].repeats


def test_the_bound_follows_the_device() -> None:
    op = MulMat(type_a="mxfp4", m=16, k=256)
    device = dataclasses.replace(DEVICE, features={"BLACKWELL_NATIVE_FP4": "1"})
    native = dataclasses.replace(CONFIG, device=device)
    event = outcome(1, 4, nmse_serial=1e-2, nmse_width=1e-2)
    verdicts = [
        feed(run_of(op=op, config=config, widths=(4,), seeds=(1,)), event)[0].verdict
        for config in (CONFIG, native)
    ]
    assert verdicts == ["WRONG", "INVARIANT"]


def test_rows_add_counts_and_keep_maxima_over_seeds() -> None:
    run = run_of(widths=(4,))
    (row,) = feed(
        run,
        outcome(1, 4, (1, 3), max_ulp=4, nmse_serial=1e-6, nmse_width=3e-6, max_err_scaled=0.5),
        outcome(2, 4, (0, 1), max_ulp=9, nmse_serial=5e-6, nmse_width=2e-6, max_err_scaled=7.5),
        outcome(3, 4),
    )
    assert row.columns_differing == [0, 1, 3]
    assert (row.elements, row.elements_differing) == (3 * 4 * 16, 4)
    assert (row.max_ulp, row.max_err_scaled, row.ulp_histogram) == (9, 7.5, {"3-4": 4})
    assert (row.nmse_serial, row.nmse_width) == (5e-6, 3e-6)
    assert row.max_abs == pytest.approx(9e-6)
    assert row.compute_seconds == 0.75
    assert [s.seed for s in row.seeds] == [1, 2, 3]
    assert [s.columns_differing for s in row.seeds] == [[1, 3], [0, 1], []]
    assert [s.max_ulp for s in row.seeds] == [4, 9, 0]
    assert row.seeds[1].hashes == ["2-0-other", "2-1-other", "2-2", "2-3"]
    assert all(s.repeats for s in row.seeds)


def test_rows_name_the_case() -> None:
    rows = clean(run_of())
    for row in rows:
        assert row.key == ("c0", OP.case(), row.width)
        assert row.upstream_case == OP.upstream_case(row.width)
        assert (row.op, row.params) == ("MUL_MAT", OP.params())
    assert [row.width for row in rows] == list(WIDTHS)


def test_a_row_is_made_with_the_last_seed_and_not_before() -> None:
    run = run_of()
    assert clean(run, seeds=SEEDS[:2]) == []
    assert run.pending() == list(WIDTHS)
    assert len(clean(run, seeds=SEEDS[2:])) == len(WIDTHS)
    assert run.pending() == []


def test_width_one_is_no_row_unless_it_was_asked_for() -> None:
    run = run_of(widths=(2, 4))
    assert [row.width for row in clean(run)] == [2, 4]


@pytest.mark.parametrize(
    ("phase", "width", "detail"),
    [("inputs", None, "while making inputs"), ("serial", 1, "while running width 1")],
)
def test_a_death_before_the_widths_takes_all_that_are_left(
    phase: str, width: int | None, detail: str
) -> None:
    run = run_of()
    feed(run, failed("UNSUPPORTED", 1, 4))
    rows = feed(run, died("CRASH", phase, 2, width))
    assert [row.width for row in rows] == [1, 2]
    for row in rows:
        assert (row.verdict, row.detail, row.signal) == ("CRASH", detail, "SIGABRT")
        assert row.stderr_tail == ["GGML_ASSERT(x) failed", "aborting"]
        assert row.seeds == []
        assert row.max_ulp is None
    assert run.results[4].verdict == "UNSUPPORTED"


def test_a_death_at_a_width_takes_that_width() -> None:
    run = run_of()
    (row,) = feed(run, died("TIMEOUT", "width", 1, 2, None))
    assert (row.width, row.verdict, row.signal, row.detail) == (2, "TIMEOUT", None, None)
    assert run.pending() == [1, 4]


def test_a_failure_of_the_case_takes_every_width() -> None:
    rows = feed(run_of(), failed("OOM", None, None, "needs 900.0 GiB"))
    assert [(row.width, row.verdict, row.detail) for row in rows] == [
        (width, "OOM", "needs 900.0 GiB") for width in WIDTHS
    ]


def test_a_width_that_fails_with_every_seed_is_one_row() -> None:
    run = run_of()
    events = [failed("OOM", seed, 4) for seed in SEEDS]
    assert [row.width for row in feed(run, *events)] == [4]
    assert feed(run, failed("UNSUPPORTED", 3, 4)) == []
    (row,) = feed(run, died("CRASH", "width", 3, 4))
    assert run.results[4] is row


def test_a_width_that_failed_is_not_judged_by_its_other_seeds() -> None:
    run = run_of(seeds=(1, 2))
    feed(run, outcome(1, 4))
    feed(run, failed("UNSUPPORTED", 2, 4))
    assert feed(run, outcome(2, 4)) == []
    assert run.results[4].verdict == "UNSUPPORTED"


def test_a_death_after_a_width_was_judged_still_shows() -> None:
    run = run_of(widths=(1, 2), seeds=(1,))
    assert [row.verdict for row in clean(run, seeds=(1,))] == ["INVARIANT"] * 2
    # freeing the buffers found the heap broken
    (row,) = feed(run, died("CRASH", "width", 1, 2))
    assert (row.width, row.verdict) == (2, "CRASH")
    assert run.results[2] is row


def test_the_request_leaves_out_what_was_run() -> None:
    run = run_of()
    asked = run.request(None)
    assert (asked.op, asked.widths, asked.seeds, asked.done) == (
        "mul_mat",
        [1, 2, 4],
        [1, 2, 3],
        [],
    )
    assert MulMat(**asked.params) == OP
    assert (asked.device, asked.threads, asked.threads_batch) == ("CPU", 1, 2)

    feed(run, outcome(1, 1), outcome(1, 2), died("CRASH", "width", 1, 4))
    asked = run.request("nan")
    assert set(asked.done) == {(1, 1), (1, 2), (1, 4), (2, 4), (3, 4)}
    # the widest stays, so that the tokens stay the same
    assert asked.widths == [1, 2, 4]
    assert asked.fault == "nan"
    json.dumps(dataclasses.asdict(asked))


def test_finished_rows_are_taken_as_they_are() -> None:
    old = run_of()
    rows = {row.key: row for row in clean(old)}
    del rows["c0", old.case, 4]
    run = run_of()
    run.take_finished(rows)
    assert run.pending() == [4]
    assert run.results == {w: old.results[w] for w in (1, 2)}
    assert set(run.request(None).done) == {(s, w) for s in SEEDS for w in (1, 2)}
    # a child sends the serial reference whatever is asked for
    assert [row.width for row in clean(run, skip=(2,))] == [4]
    classes = run.classes()
    assert classes is not None
    assert classes.groups == [[1, 2, 4]]


@pytest.mark.parametrize(
    "key", [("c1", OP.case(), 2), ("c0", OP.case() + " check=x", 2), ("c0", OP.case(), 3)]
)
def test_rows_of_another_config_case_or_width_are_not_taken(key: tuple[str, str, int]) -> None:
    run = run_of()
    run.take_finished({key: clean(run_of())[1]})
    assert run.pending() == list(WIDTHS)


def test_rows_of_other_seeds_are_run_again() -> None:
    rows = {row.key: row for row in clean(run_of(seeds=(1, 2)), seeds=(1, 2))}
    run = run_of()
    run.take_finished(rows)
    assert run.pending() == list(WIDTHS)


def test_rows_without_seeds_are_taken_whatever_the_seeds() -> None:
    old = run_of(seeds=(7,))
    (row,) = feed(old, died("CRASH", "width", 7, 4))
    run = run_of()
    run.take_finished({row.key: row})
    assert run.pending() == [1, 2]


FLASH = {"op_name": "flash_attn", "op": FlashAttn(cells=512)}


def test_attention_rows_of_another_widest_width_are_run_again() -> None:
    """The tokens sit at the end of the cache, so they move with the widest width."""
    rows = {row.key: row for row in clean(run_of(**FLASH))}
    for widths, left in (((1, 2, 4), []), ((1, 2, 4, 8), [1, 2, 4, 8]), ((1, 2), [1, 2])):
        run = run_of(**FLASH, widths=widths)
        run.take_finished(rows)
        assert run.pending() == left


def test_product_rows_of_another_widest_width_are_kept() -> None:
    rows = {row.key: row for row in clean(run_of())}
    run = run_of(widths=(1, 2, 4, 8))
    run.take_finished(rows)
    assert run.pending() == [8]


def test_rows_of_a_check_are_kept() -> None:
    """Width 1 is a block of one there and tells nothing about the widest width."""
    old = run_of(**FLASH, check="kv-padding")
    rows = feed(old, *[outcome(s, w, hashes=["x"] * w) for s in SEEDS for w in WIDTHS])
    run = run_of(**FLASH, check="kv-padding")
    run.take_finished({row.key: row for row in rows})
    assert run.pending() == []


def repack_hashes(width: int, seed: int) -> list[str]:
    """CPU_REPACK's q4_K: groups of four rows go one way, the remainder the serial way."""
    grouped = width - width % 4
    return [f"{seed}-{t}{'-group' if t < grouped else ''}" for t in range(width)]


def test_classes_of_repacked_rows_are_not_transitive() -> None:
    widths = (1, 2, 3, 4, 5, 8)
    run = run_of(widths=widths, seeds=(1, 2))
    for seed in run.seeds:
        serial = [f"{seed}-{t}" for t in range(8)]
        feed(run, outcome(seed, 1, hashes=serial))
        for width in widths[1:]:
            columns = tuple(range(width - width % 4))
            feed(run, outcome(seed, width, columns, hashes=repack_hashes(width, seed)))
    assert run.results[5].columns_differing == [0, 1, 2, 3]
    assert run.results[5].verdict == "MISMATCH"
    classes = run.classes()
    assert classes is not None
    assert (classes.case, classes.config) == (run.case, "c0")
    # 5 agrees with 4 on its columns, 8 with 4 on theirs, but 5 and 8 part at column 4
    assert classes.groups == [[1, 2, 3], [4, 5], [8]]
    assert not classes.transitive
    assert classes.pairs == [[4, 8]]


def test_classes_leave_out_widths_that_did_not_run() -> None:
    run = run_of()
    feed(run, outcome(1, 1), outcome(1, 2), died("CRASH", "width", 1, 4))
    clean(run, skip=(4,), seeds=(2, 3))
    classes = run.classes()
    assert classes is not None
    assert classes.groups == [[1, 2]]


def test_classes_hold_width_one_even_where_it_is_no_row() -> None:
    run = run_of(widths=(2, 4))
    clean(run)
    classes = run.classes()
    assert classes is not None
    assert classes.groups == [[1, 2, 4]]


def test_no_classes_without_a_serial_reference_of_every_seed() -> None:
    run = run_of()
    feed(run, outcome(1, 1), outcome(1, 2), died("CRASH", "serial", 2, 1))
    assert run.classes() is None


def test_a_check_is_part_of_the_case_and_has_no_classes() -> None:
    op = FlashAttn(cells=512)
    run = run_of(op_name="flash_attn", op=op, check="kv-padding", widths=(1, 2), seeds=(1,))
    assert run.case == op.case() + " check=kv-padding"
    assert run.params["check"] == "kv-padding"
    rows = feed(run, outcome(1, 1, (0,), hashes=["x"]), outcome(1, 2, (0, 1), hashes=["x", "y"]))
    assert [row.verdict for row in rows] == ["MISMATCH", "MISMATCH"]
    assert run.request(None).check == "kv-padding"
    assert run.classes() is None


def test_a_nan_error_is_wrong_and_can_be_written_down() -> None:
    (row,) = feed(run_of(widths=(2,), seeds=(1,)), outcome(1, 2, nmse_width=math.nan))
    assert row.verdict == "WRONG"


def measured(name: str, width: int, **data: Any) -> Event:
    return wire({"event": "measured", "phase": name, "width": width, "data": data})


def test_a_row_waits_for_what_its_passes_measure() -> None:
    run = run_of(widths=(1, 2), passes=("time",))
    assert clean(run) == []
    asked = run.request(None)
    assert (asked.passes, asked.pass_widths) == (["time"], [1, 2])
    (row,) = feed(run, measured("time", 2, time_note="cold"))
    assert (row.width, row.verdict, row.time_note) == (2, "INVARIANT", "cold")
    assert run.request(None).pass_widths == [1]
    (row,) = feed(run, wire({"event": "done"}))
    assert (row.width, row.verdict, row.time_note) == (1, "INVARIANT", "not measured")


def test_a_death_in_a_pass_costs_its_data_and_not_the_verdict() -> None:
    run = run_of(widths=(1, 2), passes=("kernels", "time"))
    clean(run)
    assert feed(run, died("CRASH", "kernels", None, 2, "SIGSEGV")) == []
    # the pass that died is not asked for again, the other one is
    assert run.request(None).passes == ["time"]
    rows = feed(run, measured("time", 1), measured("time", 2))
    assert [(row.width, row.verdict) for row in rows] == [(1, "INVARIANT"), (2, "INVARIANT")]
    assert [row.kernels_note for row in rows] == ["SIGSEGV"] * 2
