"""Upstream's own programs, llama-server and llama-cli, as they generate a text."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ggmlprobe.errors import ComputeFailed, UsageError
from ggmlprobe.worker.oom import KillerWatch
from ggmlprobe.worker.supervisor import STDERR_LINES, death_verdict

HELP_SECONDS = 60.0
POLL_SECONDS = 0.2
TOP = 20
NEW_CLI = re.compile(r"Generation:\s*([\d.]+) t/s")
OLD_CLI = re.compile(r"(?<!prompt )eval time =.*?/\s*(\d+) runs.*?([\d.]+) tokens per second", re.S)
ASSISTANT = "\n\nAssistant:\n"


class ProgramDied(ComputeFailed):
    """A program ended, or hung, where it should have answered."""

    def __init__(self, text: str, verdict: str, signal: str | None, stderr: list[str]) -> None:
        """Keep what a row says of it."""
        super().__init__(text)
        self.verdict, self.signal, self.stderr = verdict, signal, stderr


@dataclass(frozen=True)
class Output:
    """A text that a program generated; None is what it does not tell.

    Attributes:
        tokens: of the text. token_seconds: per token, prompt excluded.
    """

    text: str
    count: int
    token_seconds: float | None
    tokens: list[int] | None = None
    drafted: int | None = None
    accepted: int | None = None


@dataclass(frozen=True)
class Settings:
    """How a program is started.

    Attributes:
        model, draft: files. arm: draft or ngram; None for plain decoding.
        flags: what both of a pair share.
    """

    model: Path
    flags: tuple[str, ...]
    n_ctx: int
    n_max: int
    arm: str | None = None
    draft: Path | None = None


class Program(Protocol):
    """One of upstream's programs, with or without speculation."""

    def generate(self, prompt: str, n: int, chat: bool, ignore_eos: bool) -> Output:
        """Generate greedily."""

    def close(self) -> None:
        """End it."""


def help_of(path: Path) -> str:
    """What a program says of its options.

    Raises:
        UsageError: it does not run.
    """
    try:
        done = subprocess.run(
            [path, "--help"], capture_output=True, timeout=HELP_SECONDS, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        why = getattr(error, "strerror", None) or "it hangs"
        raise UsageError(f"--bin {path} --help: {why}; give llama-server or llama-cli") from error
    return (done.stdout + done.stderr).decode(errors="replace")


def version_of(path: Path) -> str | None:
    """The line in which a program tells its version."""
    done = subprocess.run(
        [path, "--version"], capture_output=True, timeout=HELP_SECONDS, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    lines = (done.stdout + done.stderr).decode(errors="replace").splitlines()
    return next((line.strip() for line in lines if line.startswith("version")), None)


def arguments(settings: Settings, about: str) -> list[str]:
    """Options of a program; `about` is its help, since names change between versions.

    Raises:
        UsageError: it cannot speculate so.
    """
    given = ["-m", str(settings.model), "-c", str(settings.n_ctx), *settings.flags]
    if settings.arm is None:
        return given
    if settings.arm == "ngram":
        need = ("--spec-type", "--spec-ngram-simple-size-n", "--spec-ngram-simple-size-m")
        if not all(name in about for name in need):
            raise UsageError("this program has no --spec-type ngram-simple; use --draft MODEL2")
        size, most = "2", str(settings.n_max)
        return [*given, need[0], "ngram-simple", need[1], size, need[2], most]
    most_drafted = "--spec-draft-n-max" if "--spec-draft-n-max" in about else "--draft-max"
    if most_drafted not in about:
        raise UsageError("this program has no speculative decoding; give llama-server or llama-cli")
    # upstream drafts with a second model only where it is told to, since it has other ways, too
    kind = ["--spec-type", "draft-simple"] if "draft-simple" in about else []
    return [*given, *kind, "-md", str(settings.draft), most_drafted, str(settings.n_max)]


class Server:
    """A llama-server, asked over its own HTTP interface on the loopback device.

    Args:
        path: the program. options: as `arguments` gives them. timeout: seconds of an answer.
    """

    def __init__(self, path: Path, options: Sequence[str], timeout: float) -> None:
        self.timeout = timeout
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        self._stderr, self._killer = tempfile.TemporaryFile(), KillerWatch()
        command = [str(path), *options, "--host", "127.0.0.1", "--port", str(port), "-np", "1"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._stderr, stderr=self._stderr,
            start_new_session=True,
        )  # fmt: skip
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def _wait(self) -> None:
        limit = time.monotonic() + self.timeout
        while True:
            if self._process.poll() is not None:
                raise self._died("it ended before it was ready")
            try:
                self._ask("/health", None)
            except (OSError, ValueError):
                if time.monotonic() > limit:
                    raise self._hung() from None
                time.sleep(POLL_SECONDS)
            else:
                return

    def _ask(self, where: str, body: dict[str, Any] | None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        head = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.address + where, data, head)
        # a proxy of the user's must not be asked for the loopback device
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=self.timeout) as answer:
            return json.loads(answer.read())

    def post(self, where: str, **body: Any) -> Any:
        """Ask the server.

        Raises:
            ProgramDied: it died or hangs. ComputeFailed: it answers with an error.
        """
        try:
            return self._ask(where, body)
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")[:200]
            raise ComputeFailed(f"{where}: {error.code} {' '.join(said.split())}") from error
        except TimeoutError as error:
            raise self._hung() from error
        except (OSError, ValueError) as error:
            raise self._died(f"{where}: {error}") from error

    def generate(self, prompt: str, n: int, chat: bool, ignore_eos: bool) -> Output:
        """Generate greedily."""
        if chat:
            message = {"role": "user", "content": prompt}
            prompt = self.post("/apply-template", messages=[message])["prompt"]
        made = self.post(
            "/completion", prompt=prompt, n_predict=n, temperature=0.0, top_k=1, seed=1,
            cache_prompt=False, return_tokens=True, ignore_eos=ignore_eos,
        )  # fmt: skip
        times = made.get("timings", {})
        count = int(times.get("predicted_n") or made.get("tokens_predicted") or 0)
        spent = times.get("predicted_ms")
        return Output(
            made["content"], count, spent / 1000 / count if spent and count else None,
            made.get("tokens") or None, times.get("draft_n", 0), times.get("draft_n_accepted", 0),
        )  # fmt: skip

    def candidates(self, prompt: str, chat: bool, tokens: Sequence[int]) -> dict[int, float]:
        """Log-probabilities of the likeliest tokens after a prompt and some tokens of its text."""
        if chat:
            message = {"role": "user", "content": prompt}
            prompt = self.post("/apply-template", messages=[message])["prompt"]
        before = self.post("/tokenize", content=prompt, add_special=True, parse_special=True)
        made = self.post(
            "/completion", prompt=[*before["tokens"], *tokens], n_predict=1, temperature=0.0,
            n_probs=TOP, cache_prompt=False,
        )  # fmt: skip
        (row,) = made.get("completion_probabilities") or [{}]
        return {each["id"]: each["logprob"] for each in row.get("top_logprobs", [])}

    def piece(self, token: int) -> str:
        """A token's text."""
        text: str = self.post("/detokenize", tokens=[token])["content"]
        return text

    def _tail(self) -> list[str]:
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").splitlines()
        return [line for line in lines if line.strip()][-STDERR_LINES:]

    def _died(self, text: str) -> ProgramDied:
        self._process.kill()
        code, tail = self._process.wait(), self._tail()
        death = death_verdict(code, tail, self._killer.struck())
        said = f"{text}; {death.detail}" if death.detail else text
        return ProgramDied(said, death.verdict, death.signal, tail)

    def _hung(self) -> ProgramDied:
        said = f"no answer in {self.timeout:g} s; give more time with --timeout"
        return ProgramDied(said, "TIMEOUT", None, self._tail())

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._stderr.close()


class Cli:
    """llama-cli, started anew for each text.

    Of today's one, which only chats, the text is what it writes to its output file; of an older
    one what it prints.

    Args:
        about: its help.
    """

    def __init__(self, path: Path, options: Sequence[str], timeout: float, about: str) -> None:
        self.path, self.options, self.timeout = path, list(options), timeout
        self.chats_only = "--no-conversation" not in about or "--output-file" in about

    def generate(self, prompt: str, n: int, chat: bool, ignore_eos: bool) -> Output:
        """Generate greedily.

        Raises:
            UsageError: without the chat template, which today's llama-cli cannot do.
            ProgramDied: it died or hangs.
        """
        if self.chats_only and not chat:
            raise UsageError("this llama-cli only chats: use llama-server for --no-chat-template")
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out.txt"
            given = [str(self.path), *self.options, "-p", prompt, "-n", str(n), "--temp", "0"]
            given += ["--seed", "1", "--simple-io", *(["--ignore-eos"] if ignore_eos else [])]
            if self.chats_only:
                given += ["-st", "-o", str(out)]
            else:
                given += ["-st" if chat else "-no-cnv", "--no-display-prompt"]
            done = self._run(given)
            printed = (done.stdout + done.stderr).decode(errors="replace")
            text = done.stdout.decode(errors="replace")
            if self.chats_only:
                written = out.read_text("utf-8", "replace") if out.exists() else ""
                text = written.partition(ASSISTANT)[2]
        return Output(text, *rate_of(printed))

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        killer = KillerWatch()
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=self.timeout, check=False,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            said = f"not done in {self.timeout:g} s; give more time with --timeout"
            raise ProgramDied(said, "TIMEOUT", None, []) from error
        if done.returncode:
            lines = done.stderr.decode(errors="replace").splitlines()
            tail = [line for line in lines if line.strip()][-STDERR_LINES:]
            death = death_verdict(done.returncode, tail, killer.struck())
            what = death.detail or death.signal or f"exit status {done.returncode}"
            said = f"{what}: {tail[-1] if tail else ''}"
            raise ProgramDied(said, death.verdict, death.signal, tail)
        return done

    def close(self) -> None:
        """Nothing to do."""


def rate_of(printed: str) -> tuple[int, float | None]:
    """(tokens or 0, seconds per token or None) of what llama-cli prints at its end."""
    if found := NEW_CLI.search(printed):
        rate = float(found[1])
        return 0, 1.0 / rate if rate else None
    if found := OLD_CLI.search(printed):
        return int(found[1]), 1.0 / float(found[2])
    return 0, None


def start(path: Path, settings: Settings, timeout: float) -> Program:
    """Start a program; a server is one whose name says so.

    Raises:
        UsageError: it does not run, or cannot speculate so.
        ProgramDied: a server that does not come up.
    """
    about = help_of(path)
    options = arguments(settings, about)
    if "server" in path.name:
        return Server(path, options, timeout)
    return Cli(path, options, timeout, about)
