"""What `model locate` adds to a record: fields of `ggmlprobe.record`, defined once."""

from __future__ import annotations

from dataclasses import dataclass, field

from ggmlprobe.verdict import Verdict


@dataclass(frozen=True)
class NodeDifference:
    """A node of the graph whose bits differ between single and block decode."""

    node: int = field(metadata={"doc": "Its index in the block's graph."})
    layer: int | None = field(metadata={"doc": "Layer in its name, or in a weight's."})
    name: str = field(metadata={"doc": "The tensor's name."})
    op: str = field(metadata={"doc": "ggml's name of the op."})
    type: str = field(metadata={"doc": "Type of the result."})
    ne_single: list[int] = field(metadata={"doc": "Sizes at one token, fastest first."})
    ne_block: list[int] = field(metadata={"doc": "Sizes in the block."})
    buffer: str = field(metadata={"doc": "Buffer that holds the result."})
    sources: list[str] = field(
        metadata={"doc": "What it is computed from: name, type, sizes in the block, buffer."}
    )
    tokens_differing: list[int] = field(metadata={"doc": "Tokens of the block that differ."})
    culprit_tokens: list[int] = field(
        metadata={"doc": "Of those, the ones whose inputs all agree; empty where it carries on."}
    )
    reaches_logits: bool = field(metadata={"doc": "A difference in it goes on to the logits."})


@dataclass(frozen=True)
class Replay:
    """A culprit computed on its own, from its real weights and activations."""

    node: int = field(metadata={"doc": "Its index in the block's graph."})
    reproduces: bool | None = field(
        metadata={"doc": "Both paths differ there, too; null where it could not be run."}
    )
    exact: bool | None = field(
        metadata={"doc": "Both paths give the very bits that they gave in the model."}
    )
    cause: str | None = field(
        default=None,
        metadata={"doc": "Where it does not reproduce: placement, graph or fusion, and which."},
    )
    detail: str | None = field(default=None, metadata={"doc": "What else is to be known."})
    columns_differing: list[int] = field(
        default_factory=list, metadata={"doc": "Tokens that differ in the replay."}
    )
    elements: int = field(default=0, metadata={"doc": "Elements compared."})
    elements_differing: int = field(default=0, metadata={"doc": "Those that differ in bits."})
    max_ulp: int | None = field(default=None, metadata={"doc": "Largest distance in ULPs."})
    max_abs: float | None = field(default=None, metadata={"doc": "Largest difference."})
    case: str | None = field(
        default=None, metadata={"doc": "The op probe's case of this op, type and shape."}
    )


@dataclass(frozen=True)
class Location:
    """Where single and block decode of the same tokens part."""

    config: str = field(metadata={"doc": "Id of the config."})
    width: int = field(metadata={"doc": "Tokens of the block.", "minimum": 1})
    window: int = field(metadata={"doc": "Generated tokens before the block's first output."})
    chat: bool = field(metadata={"doc": "The prompt was put into the model's chat template."})
    prompt_tokens: int = field(metadata={"doc": "Tokens of the prompt."})
    tokens: list[int] = field(metadata={"doc": "The block's tokens."})
    verdict: str = field(
        metadata={
            "doc": "MISMATCH where a node or the logits differ, else INVARIANT.",
            "enum": [str(verdict) for verdict in Verdict],
        }
    )
    detail: str | None = field(default=None, metadata={"doc": "Why it could not be run."})
    watched: str = field(
        default="every node",
        metadata={"doc": "How nodes were watched.", "enum": ["every node", "one node per run"]},
    )
    unchanged_single: bool | None = field(
        default=None, metadata={"doc": "Watching every node left the single logits' bits alone."}
    )
    unchanged_block: bool | None = field(
        default=None, metadata={"doc": "Watching every node left the block logits' bits alone."}
    )
    nodes: int = field(default=0, metadata={"doc": "Nodes of the block's graph."})
    nodes_compared: int = field(
        default=0, metadata={"doc": "Of those, compared by their bits; views are not."}
    )
    unmatched: list[str] = field(
        default_factory=list, metadata={"doc": "Nodes that only one of the graphs has."}
    )
    logits_differing: list[int] = field(
        default_factory=list, metadata={"doc": "Tokens whose logits differ, unwatched."}
    )
    flips: list[int] = field(default_factory=list, metadata={"doc": "Tokens whose argmax differs."})
    found: list[NodeDifference] = field(
        default_factory=list, metadata={"doc": "Nodes that differ, in order."}
    )
    way: list[str] = field(
        default_factory=list,
        metadata={"doc": "Shortest way from the first culprit that reaches the logits to them."},
    )
    replays: list[Replay] = field(
        default_factory=list, metadata={"doc": "One per kind of culprit, the first of each."}
    )
    signal: str | None = field(default=None, metadata={"doc": "Signal that ended the child."})
    stderr_tail: list[str] = field(
        default_factory=list, metadata={"doc": "Its last words on stderr."}
    )


@dataclass(frozen=True)
class GraphOp:
    """Nodes of one op, type and shape in a model's decode graph."""

    op: str = field(metadata={"doc": "ggml's name of the op."})
    type: str = field(metadata={"doc": "Type of its first source: of the weights, if it has any."})
    shape: str = field(metadata={"doc": "Types and sizes of all sources."})
    nodes: int = field(metadata={"doc": "How many nodes are of this kind.", "minimum": 1})
    first: str = field(metadata={"doc": "Name of the first of them."})
    weight: str | None = field(metadata={"doc": "Its weight in the file; null without."})
    buffer: str = field(metadata={"doc": "Buffer that holds its first source."})
    case: str | None = field(
        default=None, metadata={"doc": "Case that probes it with random inputs; null if none."}
    )
    case_real: str | None = field(
        default=None, metadata={"doc": "Case that probes it with the file's own weights."}
    )
    case_values: str | None = field(
        default=None,
        metadata={"doc": "Case that computes the node again on values of the model's own block."},
    )


LOCATE_DATACLASSES: tuple[type, ...] = (Location, NodeDifference, Replay, GraphOp)
"""In the order of docs/record.md."""
