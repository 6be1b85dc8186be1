"""What several formats need to know of a record: its configs, parameters, classes and seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ggmlprobe.classes import Classes
from ggmlprobe.record import Config, LibraryInfo, Record, Result
from ggmlprobe.report.text import NONE, ascii_line, param


def configs_by_id(record: Record) -> dict[str, Config]:
    """The record's configs by id."""
    return {config.id: config for config in record.configs}


def param_names(results: Sequence[Result]) -> list[str]:
    """Names of all parameters, in the order they first appear."""
    return list(dict.fromkeys(name for row in results for name in row.params))


def class_letters(record: Record) -> dict[tuple[str, str, int], str]:
    """Class letter by (config id, case, width); a width in no class is not there."""
    return {
        (entry.config, entry.case, width): letters.letter(width)
        for entry in record.classes
        for letters in [Classes(entry.groups, entry.transitive, [])]
        for group in entry.groups
        for width in group
    }


def backends_of(row: Result) -> str:
    """Backends that a scheduler gave the nodes to; a dash where none chose."""
    return ", ".join(map(ascii_line, row.backends)) or NONE


def library_label(library: LibraryInfo) -> str:
    """Version and commit, or the path where the library tells neither."""
    version = f"ggml {ascii_line(library.version)}" if library.version else ""
    commit = f"({ascii_line(library.commit)})" if library.commit else ""
    return " ".join(filter(None, [version, commit])) or ascii_line(library.path)


def env_label(env: Mapping[str, str | None]) -> str:
    """``A=0 B=`` (B taken away); a dash where nothing is set."""
    return " ".join(ascii_line(f"{name}={value or ''}") for name, value in env.items()) or NONE


def device_label(config: Config) -> str:
    """Name of the device; with the server's address where it is on one, as ggml writes both."""
    name, endpoint = config.device.name, config.device.endpoint
    return ascii_line(name if endpoint is None or endpoint in name else f"{name}[{endpoint}]")


def _of_model(config: Config, name: str) -> str:
    """A setting of the model; a dash where the config has none."""
    return NONE if config.model is None else param(getattr(config.model, name))


CONFIG_COLUMNS: dict[str, Callable[[Config], str]] = {
    "library": lambda config: library_label(config.library),
    "path": lambda config: ascii_line(config.library.path),
    "device": device_label,
    "buft": lambda config: ascii_line(config.buft or "default"),
    "threads": lambda config: str(config.threads),
    "threads_batch": lambda config: str(config.threads_batch),
    "env": lambda config: env_label(config.env),
    "arm": lambda config: ascii_line(config.arm or "own"),
    "model": lambda config: _of_model(config, "file"),
    "fa": lambda config: _of_model(config, "fa"),
    "type_k": lambda config: _of_model(config, "type_k"),
    "type_v": lambda config: _of_model(config, "type_v"),
    "ngl": lambda config: _of_model(config, "ngl"),
    "extra_bufts": lambda config: _of_model(config, "extra_bufts"),
}


def varying_config_columns(configs: Sequence[Config]) -> list[str]:
    """Names of the columns that tell the configs apart."""
    values = {name: [f(config) for config in configs] for name, f in CONFIG_COLUMNS.items()}
    names = [name for name, column in values.items() if len(set(column)) > 1]
    if "library" in names and "path" in names:
        names.remove("path")
    if values["threads_batch"] == values["threads"] and "threads_batch" in names:
        names.remove("threads_batch")
    return names


CONFIG_FIELDS: dict[str, Callable[[Config], Any]] = {
    "library_version": lambda config: config.library.version,
    "library_commit": lambda config: config.library.commit,
    "device": lambda config: config.device.name,
    "endpoint": lambda config: config.device.endpoint,
    "buft": lambda config: config.buft,
    "threads": lambda config: config.threads,
    "threads_batch": lambda config: config.threads_batch,
    "env": lambda config: config.env,
    "arm": lambda config: config.arm,
}


def config_fields(config: Config) -> dict[str, Any]:
    """What a row of a flat format says of its config."""
    return {name: value(config) for name, value in CONFIG_FIELDS.items()}
