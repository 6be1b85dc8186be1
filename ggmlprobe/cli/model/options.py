"""The options that every command about a model has."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import click

from ggmlprobe.cli.fleet import cache_dir, cores
from ggmlprobe.cli.options import NAMES, SECONDS, THREADS, Names
from ggmlprobe.configs import only_device
from ggmlprobe.errors import UsageError
from ggmlprobe.report import FORMATS
from ggmlprobe.worker.protocol import ModelSpec, Spec
from ggmlprobe.worker.supervisor import Worker

F = TypeVar("F", bound=Callable[..., Any])
FLASH_ATTENTION = ("off", "on", "auto")


class FlashAttention(Names):
    """Flash attention settings separated by commas."""

    name = "on|off|auto"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Split, and refuse any other word."""
        names = super().convert(value, param, ctx)
        for name in names:
            if name not in FLASH_ATTENTION:
                self.fail(f"'{name}' is not one of {', '.join(FLASH_ATTENTION)}", param, ctx)
        return names


@dataclass(frozen=True)
class ModelOptions:
    """What every command about a model takes; see `model_options` for their help.

    Tuples are the values to run with; single() refuses more than one.
    """

    path: Path
    prompt: str | None
    prompt_file: Path | None
    n: int
    fa: tuple[str, ...]
    ngl: int
    ctk: tuple[str, ...]
    ctv: tuple[str, ...] | None
    threads: tuple[int, ...] | None
    threads_batch: tuple[int, ...] | None
    extra_bufts: bool
    chat_template: bool
    lib: str | None
    llama_h: Path | None
    device: str | None
    output: str
    export_md: Path | None
    export_csv: Path | None
    export_json: Path | None
    export_jsonl: Path | None
    force: bool
    timeout: float
    resume: Path | None

    def text(self) -> str | None:
        """Return the prompt, from -p or -f; None where neither is given.

        Raises:
            UsageError: both are, or the file cannot be read as UTF-8.
        """
        if self.prompt_file is None:
            return self.prompt
        if self.prompt is not None:
            raise UsageError("-p and -f exclude each other")
        try:
            return self.prompt_file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"-f {self.prompt_file} cannot be read as UTF-8: {error}") from error

    def single(self, name: str) -> Any:
        """Return the one value of an option that may have several.

        Raises:
            UsageError: it has several, which this command cannot use.
        """
        values = self.values(name)
        if len(values) != 1:
            raise UsageError(f"--{name.replace('_', '-')} takes one value here")
        return values[0]

    def values(self, name: str) -> tuple[Any, ...]:
        """Return an option's values, with its default where it is not given.

        V follows K in its type, and --threads-batch --threads; there as many go together.
        """
        defaults = {"threads": (cores(),), "ctv": self.ctk}
        if name == "threads_batch" and self.threads_batch is None:
            return self.values("threads")
        found: tuple[Any, ...] = getattr(self, name) or defaults[name]
        return found

    def spec(self, path: Path | None = None) -> ModelSpec:
        """Return the model as a child is to load it; path for another one, such as a draft."""
        device = only_device(self.device and (self.device,), "model")
        return ModelSpec(
            path=str(path or self.path), llama_h=str(self.llama_h) if self.llama_h else None,
            ngl=self.ngl, extra_bufts=self.extra_bufts,
            devices=None if device is None else (device,),
        )  # fmt: skip

    def worker(self) -> Worker:
        """Return a child for the library, not started yet."""
        return Worker(Spec(self.lib, {}, cache_dir()), self.timeout)


def model_options(function: F) -> F:
    """Add MODEL and the options of every command about one; it receives them as ModelOptions."""
    path = click.Path(path_type=Path)
    options = [
        click.argument("path", metavar="MODEL", type=path),
        click.option("-p", "--prompt", metavar="TEXT", help="The prompt."),
        click.option("-f", "--file", "prompt_file", type=path, metavar="FILE",
                     help="The prompt, from a file."),
        click.option("-n", "--n", type=click.IntRange(min=1), default=100, show_default=True,
                     help="Tokens to generate."),
        click.option("-fa", "--fa", type=FlashAttention(), default="off", show_default=True,
                     help="Flash attention: on, off, auto."),
        click.option("-ngl", "--ngl", type=click.IntRange(min=-1), default=-1, show_default=True,
                     help="Layers on the GPU; -1 for all."),
        click.option("-ctk", "--ctk", type=NAMES, default="f16", show_default=True,
                     help="Types of the K cache."),
        click.option("-ctv", "--ctv", type=NAMES, help="Types of the V cache [as --ctk]."),
        click.option("-t", "--threads", type=THREADS, help="Threads at width 1 [all cores]."),
        click.option("-tb", "--threads-batch", type=THREADS,
                     help="Threads at widths above 1 [as --threads]."),
        click.option("--extra-bufts/--no-extra-bufts", default=True, show_default=True,
                     help="Allow weights in buffers such as CPU_REPACK and AMX."),
        click.option("--chat-template/--no-chat-template", default=True, show_default=True,
                     help="Put the prompt into the model's own chat template."),
        click.option("--lib", metavar="PATH", help="Directory or file of a libggml with its "
                     "libllama [$GGMLPROBE_LIB, the packaged build, llama_cpp's]."),
        click.option("--llama-h", type=path, metavar="FILE",
                     help="llama.h of that libllama [$GGMLPROBE_LLAMA_H, the one of the checkout "
                     "or package around it]."),
        click.option("--device", metavar="NAME", help="Device, or CPU for none [all there are]."),
        click.option("-o", "--output", type=click.Choice(list(FORMATS)), default="md",
                     show_default=True, help="Format on stdout."),
        *(click.option(f"--export-{kind}", type=path, metavar="FILE",
                       help=f"Also write the record as {kind}.") for kind in FORMATS),
        click.option("--force", is_flag=True, help="Overwrite files that exist."),
        click.option("--timeout", type=SECONDS, default=300.0,
                     show_default=True, help="Seconds after which a run counts as hung."),
        click.option("--resume", type=path, metavar="FILE",
                     help="Go on with this journal (.jsonl); started where it is not there."),
    ]  # fmt: skip

    @functools.wraps(function)
    def gathered(**given: Any) -> Any:
        common = {field.name: given.pop(field.name) for field in fields(ModelOptions)}
        return function(options=ModelOptions(**common), **given)

    decorated: Any = gathered
    for option in reversed(options):
        decorated = option(decorated)
    result: F = decorated
    return result
