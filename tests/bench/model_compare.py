"""What `model compare` costs: `python tests/bench/model_compare.py MODEL [N [OPTION...]]`.

Runs the seed's method and --prefix ar in one command and prints both times and their ratio, what
the self-checks said, and the drift between the two; asserts nothing. Further options go to the
command: --lib, --llama-h, --threads, --fa and the like.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

PROMPT = "Explain the Pythagorean theorem"


def run(model: str, n: str, options: list[str]) -> dict[str, Any]:
    """The record of one command with both prefixes."""
    command = [sys.executable, "-m", "ggmlprobe", "model", "compare", model, "-p", PROMPT]
    command += ["-n", n, "--prefix", "prefill,ar", "-o", "json", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"exit status {done.returncode}: {' '.join(command)}")
    record: dict[str, Any] = json.loads(done.stdout)
    return record


def show(row: dict[str, Any]) -> None:
    """One method's figures."""
    checks = ", ".join(f"{c['name']} {c['rows_differing']}/{c['rows']}" for c in row["checks"])
    print(
        f"{row['prefix']:<8} {row['method']:<12} {row['seconds']:8.2f} s, "
        f"{row['cells_differing']} of {row['cells']} cells differ, {row['flips']} flips; "
        f"rows differing in checks: {checks}"
    )


def main() -> None:
    """Both methods at one width."""
    if len(sys.argv) < 2:
        sys.exit("usage: model_compare.py MODEL [N [OPTION...]]")
    n = sys.argv[2] if len(sys.argv) > 2 else "100"
    record = run(sys.argv[1], n, sys.argv[3:])
    rows = {row["prefix"]: row for row in record["comparisons"]}
    for row in rows.values():
        show(row)
    seed, fast = rows["prefill"], rows["ar"]
    drift = fast["drift"]
    print(f"drift: {fast['drift_cells_differing']} of {drift['cells']} cells of t > 0 differ, "
          f"mean |l_block prefill - l_block ar| {drift['mean_abs']:.6f}")  # fmt: skip
    print(f"ratio: {seed['seconds'] / fast['seconds']:.2f}")


if __name__ == "__main__":
    main()
