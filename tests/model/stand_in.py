#!/usr/bin/env python3
"""A stand-in for upstream's llama-server and llama-cli: their options and answers, no model.

Its text is the prompt's words over and over; with speculation the word in $STAND_IN_FLIP (a
number) is another, and with $STAND_IN_DIE it aborts where it should answer.
"""

from __future__ import annotations

import json
import os
import re
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

NEW = """STAND-IN
--spec-type none,draft-simple,ngram-simple
--spec-draft-n-max N
--spec-ngram-simple-size-n N
--spec-ngram-simple-size-m N
-no-cnv, --no-conversation
-o, --output-file FNAME
"""
OLD = "STAND-IN\n--draft-max N\n-no-cnv, --no-conversation\n"
FLIPPED = 999


def option(*names: str) -> str | None:
    for name in names:
        if name in sys.argv:
            return sys.argv[sys.argv.index(name) + 1]
    return None


def speculates() -> bool:
    return "-md" in sys.argv or "ngram-simple" in sys.argv


def tokens_of(text: str) -> list[int]:
    return [sum(word.encode()) % 900 for word in text.split()]


def generate(n: int, prompt: str) -> list[int]:
    words = tokens_of(prompt)
    made = [words[i % len(words)] for i in range(n)]
    flip = os.environ.get("STAND_IN_FLIP")
    if flip and speculates():
        made[int(flip) :] = [FLIPPED] * (n - int(flip))
    return made


def text_of(tokens: list[int]) -> str:
    return "".join(f" {token}" for token in tokens)


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass

    def answer(self, data: Any) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(data).encode())

    def do_GET(self) -> None:
        self.answer({"status": "ok"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        getattr(self, re.sub(r"\W", "_", self.path.strip("/")))(body)

    def apply_template(self, body: Any) -> None:
        self.answer({"prompt": f"user {body['messages'][0]['content']}"})

    def tokenize(self, body: Any) -> None:
        self.answer({"tokens": tokens_of(body["content"])})

    def detokenize(self, body: Any) -> None:
        self.answer({"content": text_of(body["tokens"])})

    def completion(self, body: Any) -> None:
        if os.environ.get("STAND_IN_DIE"):
            print("GGML_ASSERT(stand-in) failed", file=sys.stderr, flush=True)
            os.abort()
        if body.get("n_probs"):
            first, last = body["prompt"][0], FLIPPED
            tops = [{"id": first, "logprob": -0.5}, {"id": last, "logprob": -0.75}]
            self.answer({"content": "", "completion_probabilities": [{"top_logprobs": tops}]})
            return
        n = body["n_predict"]
        made = generate(n, body["prompt"])
        times = {"predicted_n": n, "predicted_ms": n * (5.0 if speculates() else 10.0)}
        if speculates():
            times |= {"draft_n": n, "draft_n_accepted": n // 2}
        self.answer({"content": text_of(made), "tokens": made, "timings": times})


def main() -> None:
    if "--help" in sys.argv:
        print(OLD if os.environ.get("STAND_IN_OLD") else NEW)
    elif "--version" in sys.argv:
        print("version: 0 (stand-in)", file=sys.stderr)
    elif port := option("--port"):
        HTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()
    else:
        if os.environ.get("STAND_IN_DIE"):
            os.abort()
        prompt = option("-p") or ""
        text = text_of(generate(int(option("-n") or 0), prompt))
        if out := option("-o"):
            Path(out).write_text(f"User:\n{prompt}\n\nAssistant:\n{text}\n\n")
            print(f"> {prompt}\n{text}\n[ Prompt: 1.0 t/s | Generation: 20.0 t/s ]")
        else:
            print(text, end="")
            told = "eval time = 100.0 ms / 10 runs ( 10.0 ms per token, 50.00 tokens per second)"
            print(f"prompt eval time = 9.0 ms / 3 tokens\n{told}", file=sys.stderr)


if __name__ == "__main__":
    main()
