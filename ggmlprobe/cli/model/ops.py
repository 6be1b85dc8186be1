"""`ggmlprobe model ops`: every op of a model's decode graph, probed with the file's own weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ggmlprobe.cli.fleet import cache_dir, cores
from ggmlprobe.cli.model.options import FLASH_ATTENTION
from ggmlprobe.cli.op import WIDTHS
from ggmlprobe.cli.options import ProbeOptions, probe_options
from ggmlprobe.cli.run import run_and_print
from ggmlprobe.configs import only_device
from ggmlprobe.errors import NothingRan, UsageError
from ggmlprobe.model.located import GraphOp
from ggmlprobe.model.node_rows import case_of, rows
from ggmlprobe.model.ops import home
from ggmlprobe.ops import OPS
from ggmlprobe.record import Config, Record, Row, from_dict
from ggmlprobe.report.model_ops import FORMATS
from ggmlprobe.runner import Case, Runner
from ggmlprobe.worker.model_client import ask
from ggmlprobe.worker.protocol import Event, ModelRequest, ModelSpec, Spec
from ggmlprobe.worker.supervisor import Worker

Render = Callable[[Record], str]
FILE = click.Path(path_type=Path)


@click.command(short_help="Probe every op of a model's graph, with its own weights.")
@click.argument("path", metavar="MODEL", type=FILE)
@click.option("-fa", "--fa", type=click.Choice(FLASH_ATTENTION), default="off", show_default=True,
              help="Flash attention.")  # fmt: skip
@click.option("-ngl", "--ngl", type=click.IntRange(min=-1), default=-1, show_default=True,
              help="Layers on the GPU; -1 for all.")  # fmt: skip
@click.option("-ctk", "--ctk", default="f16", show_default=True, help="Type of the K cache.")
@click.option("-ctv", "--ctv", help="Type of the V cache [as --ctk].")
@click.option("--extra-bufts/--no-extra-bufts", default=True, show_default=True,
              help="Allow weights in buffers such as CPU_REPACK and AMX.")  # fmt: skip
@click.option("--depth", type=click.IntRange(min=0), default=0, show_default=True,
              help="Tokens in the KV cache before.")  # fmt: skip
@click.option("--llama-h", type=FILE, metavar="FILE",
              help="llama.h of the libllama [$GGMLPROBE_LLAMA_H, the library's own].")  # fmt: skip
@probe_options
def ops(
    options: ProbeOptions, path: Path, fa: str, ngl: int, ctk: str, ctv: str | None,
    extra_bufts: bool, depth: int, llama_h: Path | None,
) -> None:  # fmt: skip
    """Probe every op of a model's decode graph, with the file's weights and with random ones.

    \b
    Example:
      ggmlprobe model ops model.gguf --widths 1-9
    """
    device = only_device(options.device, "model ops")
    spec = ModelSpec(
        str(path), str(llama_h) if llama_h else None, ngl, extra_bufts,
        None if device is None else (device,),
    )  # fmt: skip
    context = {"threads": cores(), "threads_batch": cores(), "fa": fa, "type_k": ctk,
               "type_v": ctv or ctk}  # fmt: skip
    request = ModelRequest("graph", spec, {"depth": depth, "context": context})
    found, bufts = graph(options, request)
    kinds = [from_dict(GraphOp, event["data"]) for event in found]
    widths = options.widths or WIDTHS
    homes: dict[str, str | None] = {}
    cases = list(made_cases(found, widths, bufts, homes))
    given = options.buft is not None
    if not given:
        places: Any = tuple(dict.fromkeys(homes.values()))
        options = replace(options, buft=places)
    seen: set[tuple[int, int, str]] = set()

    def drive(runner: Runner, configs: list[Config], every: list[Case]) -> Iterator[Row]:
        for config in configs:
            own = [case for case in every if given or homes[case.op.case()] == config.buft]
            yield from runner.run([config], own)
            # weights are no part of the other nodes: once for each setting that they have
            place = (config.threads, config.threads_batch, str(config.env))
            if place not in seen:
                seen.add(place)
                yield from others(runner, config, request, kinds, widths)

    formats = {name: with_kinds(render, kinds) for name, render in FORMATS.items()}
    run_and_print(options, lambda ready: cases, drive=drive, formats=formats)


def with_kinds(render: Render, kinds: list[GraphOp]) -> Render:
    """Renders a record with the kinds of nodes, each with the case that probed it."""

    def made(record: Record) -> str:
        probed = {row.case for row in record.results}
        named = [
            replace(kind, case_values=case_of(kind) if case_of(kind) in probed else None)
            for kind in kinds
        ]
        return render(replace(record, graph_ops=named))

    return made


def others(
    runner: Runner, config: Config, request: ModelRequest, kinds: list[GraphOp],
    widths: tuple[int, ...],
) -> Iterator[Row]:  # fmt: skip
    """Rows of the nodes that have no case of the op probe."""
    settings = request.args["context"] | {
        "threads": config.threads, "threads_batch": config.threads_batch,
    }  # fmt: skip
    args = request.args | {"context": settings, "widths": list(widths)}
    events = ask(runner.workers[config.id], replace(request, task="nodes", args=args))
    outcomes = [event for event in events if event["event"] == "outcome"]
    yield from rows(config, kinds, outcomes, widths)


def graph(options: ProbeOptions, request: ModelRequest) -> tuple[list[Event], list[str]]:
    """The `kind` events of a decode, and the device's buffer types.

    Raises:
        NothingRan: the child died.
    """
    worker = Worker(Spec(options.lib, {}, cache_dir()), options.timeout)
    try:
        ready = worker.ready()
        found = []
        for event in ask(worker, request):
            if event["event"] == "kind":
                found.append(event)
            elif event["event"] in ("failed", "died"):
                raise NothingRan(f"the model did not decode a token: {event['detail']}")
    finally:
        worker.stop()
    if not any(event["op"] for event in found):
        raise UsageError("no op of this model's graph can be probed; give another model")
    return found, [buft for device in ready["devices"] for buft in device["bufts"][1:]]


def made_cases(
    found: list[Event], widths: tuple[int, ...], bufts: list[str],
    homes: dict[str, str | None],
) -> Iterator[Case]:  # fmt: skip
    """Cases of each kind, random inputs first; `homes` gets the buffer type of each."""
    chosen = tuple(sorted(set(widths)))
    for event in found:
        for given in event["params"]:
            params = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
            op = OPS[event["op"]](**params)
            if op.case() not in homes:
                homes[op.case()] = home(event["data"]["buffer"], bufts)
                yield Case(event["op"], op, chosen)
