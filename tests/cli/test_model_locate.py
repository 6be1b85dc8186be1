"""`ggmlprobe model locate` and `model ops` as a user meets them."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gguf_files import requantized

from ggmlprobe import record
from ggmlprobe.ggml.library import Library

Cli = Callable[..., subprocess.CompletedProcess[str]]
# a loaded machine must not spin
PASSIVE = {"OMP_WAIT_POLICY": "passive"}
PLAIN = ("--no-extra-bufts", "--no-chat-template")
TYPES = (
    "f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_K", "q3_K", "q4_K", "q5_K",
    "q6_K", "iq4_nl", "iq4_xs",
)  # fmt: skip


@pytest.fixture(scope="module")
def located(
    cli_env: dict[str, str], smollm2: Path, llama_h: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[subprocess.CompletedProcess[str], record.Record, Path]:
    """Return a run without flash attention on two threads, its record, and its CSV."""
    folder = tmp_path_factory.mktemp("located")
    command = [
        *("model", "locate", smollm2, "-p", "Explain the Pythagorean theorem", *PLAIN),
        *("--block-width", "5", "--threads", "2", "--llama-h", llama_h),
        *("--export-json", folder / "r.json", "--export-csv", folder / "r.csv"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "ggmlprobe", *map(str, command)], capture_output=True, text=True,
        check=False, env=cli_env | PASSIVE, timeout=600,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return done, record.load(folder / "r.json"), folder / "r.csv"


def test_watching_changes_nothing(located: Any) -> None:
    (found,) = located[1].locations
    assert found.unchanged_single
    assert found.unchanged_block
    assert found.watched == "every node"


def test_the_first_culprit_is_what_the_op_probe_says(located: Any) -> None:
    done, made, _ = located
    (found,) = made.locations
    if not found.found:
        pytest.skip("this library has no difference here")
    assert done.returncode == 1
    first, replay = found.found[0], found.replays[0]
    assert replay.node == first.node
    assert replay.exact
    assert first.tokens_differing == first.culprit_tokens == replay.columns_differing
    rows = {row.width: row for row in made.results if row.case == replay.case}
    assert rows[5].verdict in ("MISMATCH", "PRECISION")
    assert rows[1].verdict == "INVARIANT"


def test_the_table_names_node_way_and_replay(located: Any) -> None:
    done, made, _ = located
    (found,) = made.locations
    assert done.stdout.isascii()
    assert f"- first node that differs: {found.found[0].name}: {found.found[0].op}" in done.stdout
    assert "- way to the logits: " in done.stdout
    assert "| replayed alone" in done.stdout
    assert "op probe, random inputs" in done.stdout


def test_csv_has_a_row_per_node_that_differs(located: Any) -> None:
    _, made, path = located
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert [row["name"] for row in rows] == [node.name for node in made.locations[0].found]


def test_repacked_weights_are_replayed_and_probed_as_they_lie(
    cli: Cli, gemma3: Path, llama_h: Path
) -> None:
    done = cli(
        *("model", "locate", gemma3, "-p", "One two three", "--block-width", "6", "-t", "1"),
        *("--fa", "on", "--llama-h", llama_h, "-o", "json"), env=PASSIVE, timeout=600,
    )  # fmt: skip
    made = record.loads(done.stdout)
    (found,) = made.locations
    if found.verdict == "CRASH":
        assert found.detail is not None
        assert "--no-extra-bufts" in found.detail
        return
    repacked = {n.node for n in found.found if any("CPU_REPACK" in s for s in n.sources)}
    if not repacked & {replay.node for replay in found.replays}:
        pytest.skip("no repacked product differs in this library")
    assert all(replay.exact for replay in found.replays)
    places = {config.id: config.buft for config in made.configs}
    assert "CPU_REPACK" in {places[row.config] for row in made.results}
    for replay in found.replays:
        if replay.node in repacked:
            rows = [r for r in made.results if (r.case, r.width) == (replay.case, 6)]
            assert [r.verdict for r in rows if places[r.config] == "CPU_REPACK"] == ["MISMATCH"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--block-width", "5"), "give -p TEXT"),
        (("-p", "x", "--block-width", "1"), "is no block"),
        (("-p", "x", "--fa", "on,off"), "takes one value"),
        (("-p", "x", "--resume", "x.jsonl"), "--resume is not for locate"),
    ],
)
def test_bad_use_is_one_line_and_status_2(
    cli: Cli, smollm2: Path, options: tuple[str, ...], says: str
) -> None:
    done = cli("model", "locate", smollm2, *options)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.fixture(scope="module")
def many_types(
    library: Library, smollm2: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, str]]:
    """Return SmolLM2 with a layer's ffn_down in each type, and those types by name."""
    path = tmp_path_factory.mktemp("types") / "types.gguf"
    there = [name for name in TYPES if name in library.types]
    types = {f"blk.{i}.ffn_down.weight": name for i, name in enumerate(there)}
    requantized(library, smollm2, path, types)
    return path, types


def test_each_type_of_a_file_is_a_row(
    cli: Cli, many_types: tuple[Path, dict[str, str]], llama_h: Path
) -> None:
    path, types = many_types
    done = cli(
        *("model", "ops", path, "--widths", "1,2,8", "--seeds", "1", "--no-extra-bufts"),
        *("--threads", "1", "--llama-h", llama_h, "-o", "json"), env=PASSIVE, timeout=600,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    made = record.loads(done.stdout)
    down = [kind for kind in made.graph_ops if "1536,576" in kind.shape and kind.op == "MUL_MAT"]
    assert {kind.type for kind in down} == {*types.values()}
    for kind in down:
        assert kind.weight is not None
        assert types.get(kind.weight, "q4_1") == kind.type
    cases = {row.case for row in made.results}
    for kind in down:
        assert {kind.case, kind.case_real} <= cases
    by_case = {(row.case, row.width): row for row in made.results}
    assert all(row.verdict not in ("CRASH", "WRONG", "NAN") for row in by_case.values())
    norm = next(kind for kind in made.graph_ops if kind.op == "RMS_NORM")
    assert by_case[norm.case_values, 8].columns_differing == []
    assert json.loads(done.stdout)["graph_ops"][0]["op"] == "GET_ROWS"


def test_the_table_of_ops(cli: Cli, smollm2: Path, llama_h: Path) -> None:
    done = cli(
        *("model", "ops", smollm2, "--widths", "2", "--seeds", "1", "--no-extra-bufts"),
        *("--threads", "1", "--llama-h", llama_h), env=PASSIVE, timeout=600,
    )  # fmt: skip
    assert done.stdout.isascii()
    header = next(line for line in done.stdout.splitlines() if line.startswith("| op"))
    assert "file's weights" in header
    lines = [line for line in done.stdout.splitlines() if line.startswith("| MUL_MAT")]
    assert len(lines) == 7
