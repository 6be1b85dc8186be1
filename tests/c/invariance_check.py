"""invariance_check.c, built for a library, and `ggmlprobe op` asked for the same cases."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ggmlprobe.ggml.find import find

SOURCE = Path(__file__).with_suffix(".c")
WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 16)
SEED = 28111

Environment = dict[str, str] | None


@dataclass(frozen=True)
class Seen:
    """Per width, the columns that differ and the tokens' hashes (width 1: of all tokens alone)."""

    columns: dict[int, list[int]]
    hashes: dict[int, list[str]]


def compiled(lib: Path | str, folder: Path, *defines: str) -> Path:
    """The program in a folder, linked with the libggml of a directory or file."""
    program = folder / "invariance_check"
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", *defines]
    # by their paths, for a build may name them as it likes
    found = find(str(lib), {})
    link = [*map(str, found.files), f"-Wl,-rpath,{found.directory}", "-lm"]
    subprocess.run(["cc", *flags, str(SOURCE), "-o", str(program), *link], check=True)
    return program


def by_check(
    program: Path, *arguments: object, device: str = "CPU", widths: Sequence[int] = WIDTHS,
    env: Environment = None, lib: Path | None = None,
) -> Seen:  # fmt: skip
    """What the C program sees: columns by memcmp, hashes from the outputs it dumps.

    Args:
        lib: the library's folder where its backends are plug-ins: it looks in the current one.
    """
    dump = program.with_name("dump")
    command = [str(program), str(dump), device, *map(str, arguments), *map(str, widths)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=lib)
    assert run.returncode == 0, run.stderr
    lines = [line.split(":") for line in run.stdout.splitlines()]
    columns = {int(width): [int(t) for t in tokens.split()] for width, tokens in lines}
    data = dump.read_bytes()
    size = len(data) // (max(widths) + sum(widths))
    tokens = [data[at : at + size] for at in range(0, len(data), size)]
    alone, tokens = tokens[: max(widths)], tokens[max(widths) :]
    hashes = {}
    for width in widths:
        block, tokens = tokens[:width], tokens[width:]
        hashes[width] = [
            hashlib.blake2b(token, digest_size=8).hexdigest()
            for token in (alone if width == 1 else block)
        ]
    return Seen(columns, hashes)


def by_probe(
    lib: Path | str, threads: int, *arguments: object, device: str = "CPU",
    widths: Sequence[int] = WIDTHS, env: Environment = None,
) -> Seen:  # fmt: skip
    """What `ggmlprobe op` reports."""
    command = [
        sys.executable, "-m", "ggmlprobe", "op", *map(str, arguments),
        "--widths", ",".join(map(str, widths)), "--threads", str(threads),
        "--threads-batch", str(threads), "--seeds", str(SEED), "--device", device,
        "-o", "json", "--lib", str(lib),
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert run.returncode in (0, 1), run.stderr
    results = json.loads(run.stdout)["results"]
    for result in results:
        assert [seed["seed"] for seed in result["seeds"]] == [SEED]
        expected = ("MISMATCH", "PRECISION") if result["columns_differing"] else ("INVARIANT",)
        assert result["verdict"] in expected
    return Seen(
        {result["width"]: result["columns_differing"] for result in results},
        {result["width"]: result["seeds"][0]["hashes"] for result in results},
    )
