"""Whether the kernel's out-of-memory killer was at work, by its own counts before and after."""

from __future__ import annotations

from pathlib import Path


def kills(root: Path = Path("/")) -> int | None:
    """How many processes it has killed so far; None where the system does not say.

    Those of this process's control group (v2: memory.events), which a child is in too, else those
    of the whole machine (/proc/vmstat).
    """
    for path in (*_events_of_own_group(root), root / "proc/vmstat"):
        for line in _lines(path):
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return None


def _events_of_own_group(root: Path) -> list[Path]:
    groups = [line.removeprefix("0::/") for line in _lines(root / "proc/self/cgroup")
              if line.startswith("0::/")]  # fmt: skip
    return [root / "sys/fs/cgroup" / group / "memory.events" for group in groups]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


class KillerWatch:
    """Counts from its making on."""

    def __init__(self) -> None:
        """Note the count of now."""
        self._before = kills()

    def struck(self) -> bool | None:
        """Whether the killer has killed since; None where the system does not say."""
        after = kills()
        return None if self._before is None or after is None else after > self._before
