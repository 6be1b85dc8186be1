"""The parent's end of a request about a model: what its death means."""

from __future__ import annotations

from collections.abc import Iterator

from ggmlprobe.errors import ModelBroken
from ggmlprobe.worker.protocol import Event, ModelRequest
from ggmlprobe.worker.supervisor import Worker

# Phases in which it is the file's own numbers that a library stumbles over.
NOT_COMPUTING = ("load", "context")
ADVICE = "--no-extra-bufts keeps weights out of buffers such as AMX and CPU_REPACK"


def explain(event: Event, request: ModelRequest) -> str:
    """Return a `died` event as one line, with the option that may avoid it."""
    what = event["signal"] or event["verdict"]
    last = next((line for line in reversed(event["stderr"]) if line.strip()), "")
    text = f"{what} in phase {event['phase']}" + (f": {last.strip()}" if last else "")
    text += f" ({event['detail']})" if event.get("detail") else ""
    if event["verdict"] == "TIMEOUT":
        return f"{text}; give more time with --timeout"
    if event["verdict"] == "OOM":
        return f"{text}; use a smaller model or context"
    return f"{text}; {ADVICE}" if request.model.extra_bufts else text


def ask(worker: Worker, request: ModelRequest) -> Iterator[Event]:
    """Events of a task; the last one is `done`, or `died` with an added `detail`.

    Raises:
        ModelBroken: the child died, or hung, before anything was computed.
    """
    for event in worker.run(request):
        if event["event"] != "died":
            yield event
            continue
        detail = explain(event, request)
        if event["phase"] in NOT_COMPUTING:
            raise ModelBroken(
                f"{request.model.path} cannot be loaded: {detail}; else give another GGUF"
            )
        yield event | {"detail": detail}
