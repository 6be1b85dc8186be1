"""Whether a journal can be gone on with: its configs against those of the run that starts now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ggmlprobe.errors import RecordError
from ggmlprobe.record import Config, Header, to_dict


def match_configs(path: Path, new: Header, old: Header) -> dict[str, str]:
    """Ids of the new header's configs -> ids of the same configs in the file.

    Args:
        path: the journal, for messages.
        new: header of the run that wants to go on.
        old: header in the file.

    Raises:
        RecordError: the configs are not the same by content; one line says what differs.
    """
    was, now = to_dict(old.environment.env), to_dict(new.environment.env)
    if was != now:
        raise _differs(path, "environment", was, now)
    left = {config.id: _content(config) for config in old.configs}
    ids: dict[str, str] = {}
    for config in new.configs:
        content = _content(config)
        found = next((name for name, other in left.items() if other == content), None)
        if found is None:
            raise _nearest_difference(path, content, list(left.values()))
        ids[config.id] = found
        del left[found]
    if left:
        raise _nearest_difference(path, {}, list(left.values()))
    return ids


def _nearest_difference(
    path: Path, content: dict[str, Any], others: list[dict[str, Any]]
) -> RecordError:
    """Name the fields in which a config differs from the one in the file that is most like it."""
    if not content or not others:
        return RecordError(
            f"{path}: {'more' if others else 'fewer'} configs than this command has: "
            "repeat the command that made it, or name a new file"
        )
    nearest = min(others, key=lambda other: sum(other[k] != content[k] for k in content))
    name = next(k for k in content if nearest[k] != content[k])
    if name == "identity":
        return RecordError(
            f"{path}: the files of library {content['library']} are not those its rows were made "
            "with (a rebuild changes them): name a new file, or give that build"
        )
    return _differs(path, name, nearest[name], content[name])


def _differs(path: Path, name: str, was: Any, now: Any) -> RecordError:
    if isinstance(was, dict) and isinstance(now, dict):
        key = min(k for k in was.keys() | now.keys() if was.get(k) != now.get(k))
        name, was, now = f"{name} {key}", was.get(key), now.get(key)
    return RecordError(
        f"{path}: {name} is {was!a} in the file, {now!a} now: make them equal, or name a new file"
    )


def _content(config: Config) -> dict[str, Any]:
    """What two configs must share for their rows to stand in one record."""
    device = {f"device.{key}": value for key, value in to_dict(config.device).items()}
    # a driver update or a neighbour's allocation can change it without changing any result
    del device["device.memory_total"]
    library = config.library
    model = {f"model.{key}": value for key, value in (to_dict(config.model) or {}).items()}
    return (
        device
        | model
        | {
            "library": library.path,
            "version": library.version,
            "commit": library.commit,
            "buft": config.buft,
            "threads": config.threads,
            "threads_batch": config.threads_batch,
            "env": to_dict(config.env),
            # last: what else differs says more
            "identity": library.identity,
        }
    )
