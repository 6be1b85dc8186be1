"""The table of arms: letters over all arms, reasons, times of a pair, thresholds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ggmlprobe.classes import joint_letters
from ggmlprobe.record import Config, DeviceRecord, Kernel, Record, Result, SeedResult, TimeStats
from ggmlprobe.report.arms import table

WIDTHS = (1, 2, 8)


def timed(us: float) -> TimeStats:
    samples = [us * 1e-6 * (1 + 0.001 * i) for i in range(9)]
    return TimeStats(samples[4], samples[2], samples[6], 9, 1, 1, 1, False, 0.0, samples=samples)


def row(
    config: str, width: int, bits: str, us: float | None = None, type_a: str = "q4_K"
) -> Result:
    return Result(
        config, f"MUL_MAT(type_a={type_a})", "X", "MUL_MAT", {"type_a": type_a}, width, "INVARIANT",
        seeds=[SeedResult(1, [], 0, 0, [bits] * width, True)], time=timed(us) if us else None,
        kernels=[Kernel(f"ggml_vec_dot_{bits}_q8_K", 0.9)],
    )  # fmt: skip


def refused(config: str, width: int, why: str) -> Result:
    made = replace(row(config, width, "x"), seeds=[], kernels=[], verdict="UNSUPPORTED")
    return replace(made, detail=why)


def arms(config: Config, *names: str) -> list[Config]:
    made = [replace(config, id=f"c{i + 1}", arm=name) for i, name in enumerate(names)]
    return [replace(config, id="c0"), *made]


Make = Callable[..., Record]


def test_letters_are_joint_and_reasons_are_told(record: Make, config: Config) -> None:
    rows = [row("c0", w, "a" if w < 8 else "b") for w in WIDTHS]
    rows += [row("c1", w, "a") for w in WIDTHS] + [row("c2", w, "c") for w in (1, 2)]
    rows += [refused("c2", 8, "not proven: mmq ran")]
    rows += [row("c3", 1, "a"), replace(row("c3", 2, "a"), verdict="NONDETERMINISTIC")]
    text = table(record(rows, configs=arms(config, "mmvq", "split:4", "mmq")))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for line in ("| width | own | mmvq | split:4 | mmq |", "| 1 | A | A | C | A |",
                 "| 2 | A | A | C | A? |", "| 8 | B | A | . | - |"):  # fmt: skip
        assert line in lines
    assert "- split:4: 1,2 ggml_vec_dot_c_q8_K; 8 UNSUPPORTED: not proven: mmq ran" in lines
    assert "- own: 1,2 ggml_vec_dot_a_q8_K; 8 ggml_vec_dot_b_q8_K" in lines
    assert any(line.startswith("- cells: class letter over all arms") for line in lines)
    assert "threshold" not in text.replace("ggmlprobe", "")


def test_times_of_the_pair_and_the_price_of_splitting(record: Make, config: Config) -> None:
    rows = [row("c0", w, "a", 100.0) for w in WIDTHS]
    rows += [row("c1", w, "a", 50.0 * w) for w in WIDTHS]
    rows += [row("c2", w, "b", 150.0) for w in WIDTHS]
    rows += [row("c3", w, "a", 300.0) for w in WIDTHS]
    text = table(record(rows, configs=arms(config, "mmvq", "mmq", "split:4")))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "| width | mmvq us | mmq us | ratio | 95 % |" in lines
    assert any(line.startswith("| 1 | 50.2 | 151 | 3.000 |") for line in lines)
    assert any(line.startswith("| 8 | 402 | 151 | 0.375 |") for line in lines)
    # only widths above the split
    at = lines.index("| width | own us | split:4 us | ratio | 95 % |")
    assert lines[at + 2].startswith("| 8 | 100 | 301 | 3.000 |")
    assert lines[at + 3] == ""


def test_types_with_the_same_threshold_share_a_line(record: Make, config: Config) -> None:
    rows = []
    for type_a, slope in (("q4_K", 50.0), ("q5_K", 50.0), ("q6_K", 200.0)):
        rows += [row("c0", w, "a", 100.0, type_a) for w in WIDTHS]
        rows += [row("c1", w, "a", slope * w, type_a) for w in WIDTHS]
        rows += [row("c2", w, "b", 150.0, type_a) for w in WIDTHS]
    text = table(record(rows, configs=arms(config, "mmvq", "mmq")))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    at = lines.index("| threshold: mmq from width, else mmvq | types |")
    assert lines[at + 2 : at + 4] == [
        "| 8 (3-7 not timed) | q4_K, q5_K |", "| 1 | q6_K |",
    ]  # fmt: skip


def test_architectures_of_products_by_experts(record: Make, config: Config) -> None:
    features = {"ARCHS": "750,890"}
    device = DeviceRecord("CUDA0", "Example GPU", "CUDA", "GPU", None, features)
    made = arms(replace(config, device=device), "mmid:4")
    text = table(record([row("c0", 1, "a"), row("c1", 1, "a")], configs=made))
    assert "- architectures: compiled 750,890, running not told" in text


def test_joint_letters() -> None:
    signatures = {"a1": [["x", "y"]], "a2": [["x", "y"]], "b1": [["x", "z"]], "b2": [["x"]]}
    # the shorter one agrees with both and joins the first
    assert joint_letters(signatures) == {"a1": "A", "a2": "A", "b1": "B", "b2": "A"}
