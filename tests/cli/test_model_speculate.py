"""`ggmlprobe model speculate` as a user meets it: arms, status, formats, journal, bad input."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ggmlprobe import record
from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.llama.library import Llama
from ggmlprobe.ggml.llama.model import quantize
from ggmlprobe.model.prompts import Prompt
from ggmlprobe.model.speculation_runs import Children, Plan
from ggmlprobe.record import Config, DeviceRecord, LibraryInfo
from ggmlprobe.worker.protocol import ModelSpec, Spec
from ggmlprobe.worker.supervisor import Worker

Cli = Callable[..., subprocess.CompletedProcess[str]]
SMALL = ("-n", "6", "--threads", "1", "--no-extra-bufts", "--repeats", "1")


@pytest.fixture(scope="session")
def draft(
    library: Library, llama_h: Path, smollm2: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return a smaller quantization of the same model, by libllama's own quantizer."""
    target = tmp_path_factory.mktemp("draft") / "smollm2-q2_k.gguf"
    quantize(Llama.load(library, llama_h), smollm2, target, "Q2_K", threads=1)
    return target


@pytest.fixture
def speculate(cli: Cli, smollm2: Path, llama_h: Path) -> Cli:
    """Return the command on SmolLM2, a few tokens and one thread."""

    def run(*options: object, **more: Any) -> subprocess.CompletedProcess[str]:
        given = ("--llama-h", llama_h, *SMALL, *options)
        return cli("model", "speculate", smollm2, *given, timeout=600, **more)

    return run


def test_every_arm_against_plain_decoding(speculate: Cli, draft: Path) -> None:
    done = speculate("--draft", draft, "-p", "One two three", "--recheck-margin", "0.5,1e9",
                     "-o", "json")  # fmt: skip
    found = record.loads(done.stdout)
    rows = {(row.arm, row.recheck): row for row in found.speculated}
    assert list(rows) == [
        ("draft", 0.0), ("draft", 0.5), ("draft", 1e9), ("wrong", 0.0), ("user", 0.0),
    ]  # fmt: skip
    assert done.returncode == int(any(row.verdict != "INVARIANT" for row in found.speculated))
    assert {row.verdict for row in found.speculated} <= {"INVARIANT", "MISMATCH"}
    assert rows["user", 0.0].verdict == "INVARIANT"
    assert rows["draft", 0.0].drafted
    assert rows["draft", 1e9].rechecked >= 4
    wrong = rows["wrong", 0.0]
    assert wrong.accepted is not None
    assert wrong.drafted is not None
    assert wrong.accepted < wrong.drafted
    assert len(rows["draft", 0.0].token_seconds) == 1
    assert {each.prompts for each in found.speculation_totals} == {1}


def test_tables_and_flat_formats(speculate: Cli, tmp_path: Path) -> None:
    path, out = tmp_path / "set.txt", tmp_path / "out.csv"
    path.write_text("Grüße\nOne two one two one\n")
    done = speculate("--ngram", "--prompts", path, "--export-csv", out, "--no-chat-template")
    assert done.stdout.isascii()
    assert "| all prompts | recheck | equal" not in done.stdout
    assert "| all prompts |" in done.stdout
    assert "texts are not the plain one" in done.stdout
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert [(row["prompt"], row["arm"]) for row in rows] == [
        (prompt, arm) for prompt in ("p0", "p1") for arm in ("ngram", "wrong", "user")
    ]
    assert {"fa", "verdict", "tokens_per_second", "first_position"} <= rows[0].keys()
    lines = speculate("--ngram", "-p", "a", "--no-control", "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line)["arm"] for line in lines] == ["ngram", "user"]


def test_resume_keeps_finished_prompts(speculate: Cli, tmp_path: Path) -> None:
    journal, prompts = tmp_path / "run.jsonl", tmp_path / "set.txt"
    prompts.write_text("First\n")
    options = ("--ngram", "--prompts", prompts, "--resume", journal, "-o", "json")
    first = json.loads(speculate(*options).stdout)
    assert journal.read_text().count("\n") == 4
    prompts.write_text("First\nSecond\n")
    again = json.loads(speculate(*options).stdout)
    # seconds would differ had they run again
    assert again["speculated"][:3] == first["speculated"]
    assert len(again["speculated"]) == 6
    assert journal.read_text().count("\n") == 7


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-p", "a"), "either --draft MODEL2 or --ngram"),
        (("-p", "a", "--ngram", "--draft", "x.gguf"), "either --draft MODEL2 or --ngram"),
        (("--ngram",), "-p PROMPT or --prompts FILE"),
        (("-p", "a", "--ngram", "--n-max", "0"), "n-max"),
        (("-p", "a", "--ngram", "--recheck-margin", "x"), "no list of margins"),
        (("-p", "a", "--ngram", "--recheck-margin", "0"), "above 0"),
        (("-p", "a", "--draft", "nowhere.gguf"), "nowhere.gguf cannot be read"),
        (("-p", "a", "--ngram", "--retry"), "--retry goes with --resume"),
    ],
)
def test_bad_input_is_one_line_and_exit_status_2(
    speculate: Cli, options: tuple[str, ...], said: str
) -> None:
    done = speculate(*options)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
    assert done.stdout == ""


def test_a_draft_of_another_vocabulary_is_refused(speculate: Cli, gemma3: Path) -> None:
    done = speculate("-p", "a", "--draft", gemma3)
    assert done.returncode == 2
    assert "another vocabulary" in done.stderr


@pytest.fixture
def worker(lib_path: str) -> Iterator[Worker]:
    made = Worker(Spec(lib_path), 300.0)
    yield made
    made.stop()


def test_a_broken_verifier_is_caught_on_a_real_model(
    worker: Worker, smollm2: Path, llama_h: Path
) -> None:
    plan = Plan([Prompt("p", "One two three")], 8, 3, True, "ngram", None, [0.0], repeats=1)
    model = record.ModelSettings(str(smollm2), "", 0, 0, fa="off")
    config = Config("c0", LibraryInfo("", None, None, ""), DeviceRecord("", "", "", ""), None, 1, 1,
                    {}, model)  # fmt: skip
    spec = ModelSpec(str(smollm2), str(llama_h), extra_bufts=False)
    for fault, verdict in (("verifier", "WRONG"), (None, "INVARIANT")):
        children = Children({"c0": worker}, spec, None, plan, fault=fault)
        rows = plan.rows(config, plan.prompts[0])
        found = {row.arm: row for row in children.generate(config, plan.prompts[0], rows)}
        wrong = found["wrong"]
        assert wrong.verdict in (verdict, "MISMATCH") if fault is None else wrong.verdict == verdict
        if fault:
            assert wrong.difference is not None
            assert wrong.difference.own is False
            assert "broken verifier" in (wrong.detail or "")
