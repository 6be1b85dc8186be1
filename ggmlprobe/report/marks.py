"""Letters and signs for verdicts in the cells of a matrix."""

from __future__ import annotations

from ggmlprobe.verdict import Verdict

# a row without a comparison has no class: its mark stands alone
ALONE = {
    Verdict.CRASH: "cr",
    Verdict.TIMEOUT: "to",
    Verdict.OOM: "oom",
    Verdict.UNSUPPORTED: ".",
}
BESIDE = {
    Verdict.NAN: "n",
    Verdict.NONDETERMINISTIC: "?",
    Verdict.WRONG: "!",
    Verdict.PRECISION: "p",
}
