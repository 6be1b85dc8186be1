"""`model speculate --bin` on a stand-in: upstream's own programs are not built for the tests."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., subprocess.CompletedProcess[str]]
STAND_IN = Path(__file__).parents[1] / "model" / "stand_in.py"
DRAFT = ("--draft", "small.gguf")


@pytest.fixture
def run(cli: Cli, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs the command on a stand-in of that name."""
    (tmp_path / "m.gguf").write_bytes(b"GGUF")

    def call(name: str, *options: object, **env: str) -> subprocess.CompletedProcess[str]:
        program = tmp_path / name
        program.write_text(f"#!{sys.executable}\n" + STAND_IN.read_text())
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return cli(
            "model", "speculate", tmp_path / "m.gguf", "-p", "one two three", "-n", "8",
            "--bin", program, "--threads", "1", *options, env=env,
        )  # fmt: skip

    return call


def rows(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(done.stdout)["speculated"]
    return found


@pytest.mark.parametrize("how", [DRAFT, ("--ngram",)])
def test_a_server_with_equal_texts(run: Cli, how: tuple[str, ...]) -> None:
    done = run("llama-server", *how, "--repeats", "2", "-o", "json")
    assert done.returncode == 0, done.stderr
    (row,) = rows(done)
    assert (row["verdict"], row["tokens"]) == ("INVARIANT", 8)
    assert (row["drafted"], row["accepted"], row["blocks"]) == (8, 4, 4)
    assert row["mean_length"] == 2.0
    assert row["ratio"] == pytest.approx(0.5)
    assert row["arm"] == how[0].strip("-")
    config = json.loads(done.stdout)["configs"][0]
    assert config["library"]["origin"] == "--bin"
    assert config["library"]["version"] == "version: 0 (stand-in)"


def test_a_server_that_differs(run: Cli) -> None:
    done = run("llama-server", *DRAFT, "--no-chat-template", "-o", "json", STAND_IN_FLIP="3")
    assert done.returncode == 1
    apart = rows(done)[0]["difference"]
    assert (apart["position"], apart["token"], apart["piece"]) == (3, 999, " 999")
    assert apart["plain_margin"] == pytest.approx(0.25)
    assert apart["plain_logits"] == [-0.5, -0.75]
    table = run("llama-server", *DRAFT, "--no-chat-template", STAND_IN_FLIP="3").stdout
    assert "token 3: plain" in table
    assert "log-probabilities plain -0.5000 / -0.7500, margin 0.25" in table


def test_todays_cli_writes_its_text_to_a_file(run: Cli) -> None:
    done = run("llama-cli", *DRAFT, "-o", "json")
    assert done.returncode == 0, done.stderr
    (row,) = rows(done)
    assert row["text"].split()[:3] == row["text"].split()[3:6]
    assert row["drafted"] is None
    assert row["token_seconds"] == [pytest.approx(0.05)] * 3
    done = run("llama-cli", *DRAFT, STAND_IN_FLIP="3")
    assert done.returncode == 1
    assert ", draft: byte " in done.stdout
    assert "999" in done.stdout
    refused = run("llama-cli", *DRAFT, "--no-chat-template")
    assert refused.returncode == 2
    assert "only chats" in refused.stderr


def test_an_older_cli_prints_its_text(run: Cli) -> None:
    done = run("llama-cli", *DRAFT, "--no-chat-template", "-o", "json", STAND_IN_OLD="1")
    assert done.returncode == 0, done.stderr
    (row,) = rows(done)
    assert row["tokens"] == 10
    assert row["token_seconds"][0] == pytest.approx(0.02)
    refused = run("llama-cli", "--ngram", STAND_IN_OLD="1")
    assert refused.returncode == 2
    assert "no --spec-type ngram-simple" in refused.stderr


@pytest.mark.parametrize("name", ["llama-server", "llama-cli"])
def test_a_program_that_dies_is_a_row(run: Cli, name: str) -> None:
    done = run(name, *DRAFT, "-o", "json", STAND_IN_DIE="1")
    assert done.returncode == 1
    (row,) = rows(done)
    assert (row["verdict"], row["signal"]) == ("CRASH", "SIGABRT")


def test_a_program_that_is_none(cli: Cli, run: Cli, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    for path in ("nowhere", str(tmp_path / "m.gguf")):
        done = cli("model", "speculate", tmp_path / "m.gguf", "-p", "a", *DRAFT, "--bin", path)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "give llama-server or llama-cli" in done.stderr
    margins = run("llama-server", *DRAFT, "--recheck-margin", "0.1")
    assert margins.returncode == 2
