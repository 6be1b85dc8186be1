"""How much host memory this process may still take, containers' limits included."""

from __future__ import annotations

from pathlib import Path


def _number(path: Path) -> int | None:
    """Return the integer in a one-line file; None if there is no such file or it says max."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _key(path: Path, key: str) -> int:
    """Return the number after a key in a file of "key number" lines, 0 if absent."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(key + " ")), 0)


def _room(folder: Path, limit: str, used: str, reclaimable: str) -> int | None:
    """Return one control group's limit less what it uses and cannot give back."""
    most, now = _number(folder / limit), _number(folder / used)
    if most is None or now is None:
        return None
    return max(0, most - max(0, now - _key(folder / "memory.stat", reclaimable)))


def _groups(root: Path) -> list[tuple[str, Path]]:
    """Return (version, folder) of this process's memory control group and all above it."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        base = root / "sys/fs/cgroup"
        version = "2" if not controllers else "1"
        if version == "1" and "memory" not in controllers.split(","):
            continue
        top = base if version == "2" else base / "memory"
        folder = top / path.lstrip("/")
        found += [(version, each) for each in (folder, *folder.parents) if each.is_relative_to(top)]
    return found


def available(root: Path = Path("/")) -> int | None:
    """Return the bytes this process can still allocate, None where the system does not say.

    The smallest of MemAvailable and the room in each control group (v1 or v2) around the process.
    """
    rooms: list[int | None] = []
    try:
        lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        lines = []
    rooms += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    for version, folder in _groups(root):
        if version == "2":
            rooms.append(_room(folder, "memory.max", "memory.current", "inactive_file"))
        else:
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            rooms.append(_room(folder, *names))
    return min((room for room in rooms if room is not None), default=None)
