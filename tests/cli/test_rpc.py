"""Servers and lists of devices: `--device rpc://HOST:PORT`, `all`, `A,B`; and `serve`.

A server is made to die at one width by tests/c/planted_sgemm.c, preloaded into it; with `99` it
only sums in plain order.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ggmlprobe import record
from ggmlprobe.endpoint import reach
from ggmlprobe.record import Record, Result

Cli = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., Any]
WIDTHS = (1, 2, 4, 5, 6)
RUN = (
    "op", "mul_mat", "--type", "f32", "--m", "16", "--k", "256,512", "--threads", "1",
    "--widths", "1,2,4-6", "--seeds", "7",
)  # fmt: skip
# RPC_CMD_HELLO with the length and bytes of RPC_CONN_CAPS_SIZE
HELLO = struct.pack("<BQ", 14, 24) + bytes(24)


@pytest.fixture
def plant(planted: Path) -> Callable[[str], dict[str, str]]:
    return lambda kind: {"LD_PRELOAD": str(planted), "PLANTED": kind}


def by_config(made: Record) -> dict[str, list[Result]]:
    return {
        config.id: [row for row in made.results if row.config == config.id]
        for config in made.configs
    }


def bits(rows: list[Result]) -> list[Any]:
    return [(row.case, row.width, row.verdict, [seed.hashes for seed in row.seeds]) for row in rows]


def loaded(done: subprocess.CompletedProcess[str]) -> Record:
    assert done.returncode in (0, 1), done.stderr
    return record.loads(done.stdout)


def test_a_server_computes_the_bits_of_its_device(cli: Cli, rpc_server: Start) -> None:
    shape = ("op", "mul_mat", "--type", "q4_K,f32", "--m", "64", "--k", "512", "--widths", "1-9")
    devices = f"CPU,{rpc_server().device}"
    made = loaded(cli(*shape, "--threads", "1", "--device", devices, "-o", "json"))
    here, there = by_config(made).values()
    assert len(here) == 18
    assert bits(here) == bits(there)


def test_threads_are_those_of_the_server(cli: Cli, rpc_server: Start) -> None:
    """Two threads split the cache at width 1: other bits than with one."""
    shape = ("op", "flash_attn", "--heads", "4", "--kv-heads", "2", "--kv", "512")
    devices = f"CPU,{rpc_server(threads=2).device}"
    made = loaded(
        cli(*shape, "--widths", "1,2", "--threads", "1,2", "--device", devices, "-o", "json")
    )
    one, two, *there = map(bits, by_config(made).values())
    assert [config.threads for config in made.configs] == [1, 2, 1, 2]
    assert one != two
    assert there == [two, two]


def test_bits_of_a_server_that_sums_otherwise_are_its_own(
    cli: Cli, rpc_server: Start, plant: Callable[[str], dict[str, str]]
) -> None:
    server = rpc_server(env=plant("reverse:5:6"))
    made = loaded(cli(*RUN, "--device", server.device, "-o", "json"))
    found = {row.width: row.verdict for row in made.results}
    assert found == dict(zip(WIDTHS, [*["INVARIANT"] * 3, *["MISMATCH"] * 2], strict=True))


def test_the_record_tells_the_server(cli: Cli, rpc_server: Start) -> None:
    server = rpc_server(devices="CPU,CPU")
    done = cli(*RUN, "--device", f"cpu,{server.device},CPU", "-o", "json")
    told = [(c.device.name, c.device.backend, c.device.endpoint) for c in loaded(done).configs]
    assert told == [
        ("CPU", "CPU", None), ("RPC0", "RPC", server.endpoint), ("RPC1", "RPC", server.endpoint),
    ]  # fmt: skip
    done = cli(*RUN, "--device", f"CPU,{server.device}")
    assert f"RPC1[{server.endpoint}]" in done.stdout
    assert "threads of a server are its own" in done.stdout


def test_all_is_every_device_that_can_compute_alone(cli: Cli, rpc_server: Start) -> None:
    server = rpc_server()
    shown = cli("devices").stdout.splitlines()
    kinds = ("(CPU)", "(GPU)", "(IGPU)")
    own = [line.partition(":")[0] for line in shown if any(f" {kind}" in line for kind in kinds)]
    made = loaded(cli(*RUN, "--device", f"all,{server.device},CPU", "-o", "json"))
    assert [config.device.name for config in made.configs] == [*own, "RPC0"]
    assert "CPU" in own


def test_a_server_that_dies_costs_no_other_device_and_can_be_gone_on_with(
    cli: Cli, rpc_server: Start, plant: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    dying, other = rpc_server(env=plant("killed:5:5")), rpc_server(env=plant("hang:99:99"))
    journal = tmp_path / "run.jsonl"
    devices = f"{dying.device},CPU,{other.device}"
    command = [*RUN, "--device", devices, "--resume", journal, "--export-json", "out.json"]
    done = cli(*command)
    assert done.returncode == 1
    lost, here, there = by_config(record.load(tmp_path / "out.json")).values()
    assert [row.verdict for row in lost] == ["INVARIANT"] * 3 + ["CRASH"] * 7
    assert [row.signal for row in lost] == [None] * 3 + ["SIGABRT"] + [None] * 6
    assert "Remote RPC server crashed" in " ".join(lost[3].stderr_tail)
    said = f"rpc://{dying.endpoint}: connection refused: start ggml-rpc-server there"
    assert {row.detail for row in lost[4:]} == {said}
    assert all(row.seeds for row in [*here, *there])
    matrix = done.stdout.partition("- by device")[0].strip().rpartition("\n\n|")[2].splitlines()[2:]
    assert [line.split()[1:4:2] for line in matrix] == [["256", "5cr"], ["512", "1cr"]]
    before = journal.read_bytes()

    rpc_server(port=int(dying.endpoint.partition(":")[2]), env=plant("hang:99:99"))
    again = by_config(loaded(cli(*command, "--retry", "--force", "-o", "json")))
    back, *others = map(bits, again.values())
    assert others == [bits(here), bits(there)]
    assert back == bits(there)
    assert back[:3] == bits(lost[:3])
    news = journal.read_bytes()[len(before) :]
    assert news.count(b'{"result":') == 7, "only the lost rows were run again"


def test_a_server_that_is_started_again_goes_on(
    cli: Cli, rpc_server: Start, plant: Callable[[str], dict[str, str]]
) -> None:
    """It dies of width 5, each time."""
    first = rpc_server()
    first.kill()
    loop = ["sh", "-c", 'while :; do "$@"; done', "sh", *first.process.args]
    env = os.environ | plant("killed:5:5")
    watched = subprocess.Popen(loop, stdout=subprocess.DEVNULL, env=env, start_new_session=True)
    try:
        reach(first.endpoint, 10.0)
        made = loaded(cli(*RUN, "--device", first.device, "-o", "json"))
    finally:
        os.killpg(watched.pid, signal.SIGKILL)
        watched.wait()
    assert [row.verdict for row in made.results] == 2 * [
        *["INVARIANT"] * 3, "CRASH", "INVARIANT"
    ]  # fmt: skip


def test_a_dead_server_among_others_is_told_before_anything_runs(
    cli: Cli, rpc_server: Start
) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"rpc://127.0.0.1:{bound.getsockname()[1]}"
        done = cli(*RUN, "--device", f"CPU,{rpc_server().device},{address}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"ggmlprobe: {address}: connection refused: start ggml-rpc-server there\n"


def test_a_buffer_type_that_one_of_the_devices_lacks(cli: Cli, rpc_server: Start) -> None:
    server = rpc_server()
    done = cli(*RUN, "--device", f"CPU,{server.device}", "--buft", "CPU")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert f"no buffer type CPU: RPC0 has RPC0[{server.endpoint}]" in line


def test_kernels_of_a_server_are_not_seen_and_its_time_has_a_round_trip(
    cli: Cli, rpc_server: Start
) -> None:
    server = rpc_server()
    passes = ("--kernels", "--time", "--hot", "-o", "json")
    made = loaded(cli(*RUN, "--device", server.device, *passes))
    for row in made.results:
        assert (row.kernels, row.kernels_note) == (
            [], "kernels run on the server, where they are not seen",
        )  # fmt: skip
        assert row.time is not None
        assert f"round trip to {server.endpoint}" in (row.time_note or "")


def test_the_time_of_a_server_holds_what_it_computes(
    cli: Cli, rpc_server: Start, plant: Callable[[str], dict[str, str]]
) -> None:
    """A product that takes a millisecond longer, while ggml comes back once the graph is sent."""
    server = rpc_server(env=plant("slow:1:99"))
    shape = ("op", "mul_mat", "--type", "f32", "--m", "16", "--k", "256", "--widths", "1")
    made = loaded(cli(*shape, "--device", server.device, "--time", "--hot", "-o", "json"))
    assert min(row.time.median_seconds for row in made.results if row.time) > 1e-3


def test_bisect_takes_a_list(
    cli: Cli, rpc_server: Start, plant: Callable[[str], dict[str, str]]
) -> None:
    pair = [rpc_server(env=plant(f"reverse:{n}:99")).device for n in (5, 7)]
    shape = ("bisect", "mul_mat", "--type", "f32", "--m", "16", "--k", "256", "--to", "16")
    done = cli(*shape, "--device", ",".join(pair), "-o", "json")
    found = json.loads(done.stdout)["bisections"]
    assert [row["config"] for row in found] == ["c0", "c1"]
    assert [row["boundaries"] for row in found] == [[[4, 5]], [[6, 7]]]


@pytest.mark.parametrize(
    "command",
    [
        "threshold mul_mat --device CPU,CPU",
        "threshold mul_mat --device all",
        "ab mul_mat --threads-b 2 --device rpc://127.0.0.1:1",
        "ab mul_mat --device-a CPU --device-b CPU,rpc://127.0.0.1:1",
        "model ops model.gguf --device rpc://127.0.0.1:1",
        "model compare model.gguf -p x --device rpc://127.0.0.1:1",
    ],
)
def test_commands_that_take_one_device_say_so(cli: Cli, command: str) -> None:
    done = cli(*command.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert "takes one device, and of this machine" in done.stderr
    named = next(part for part in reversed(command.split()) if part.startswith("--device"))
    assert f"ggmlprobe: {named} " in done.stderr
    assert done.stderr.count("\n") == 1


def test_devices_shows_those_of_a_server_too(cli: Cli, rpc_server: Start) -> None:
    server = rpc_server(devices="CPU,CPU")
    own = cli("devices").stdout.splitlines()
    shown = cli("devices", "--device", f"{server.device},{server.device}").stdout.splitlines()
    free = f"RPC0: {server.endpoint} (GPU), "
    assert [line for line in shown if line.startswith(free)]
    added = [line.partition(":")[0] for line in shown if line.startswith("RPC")]
    assert added == ["RPC0", "RPC1"]
    assert len([line for line in shown if not line.startswith(" ")]) == 2 + len(
        [line for line in own if not line.startswith(" ")]
    )
    done = cli("devices", "--device", "CPU")
    assert (done.returncode, done.stdout) == (2, "")
    assert "rpc://HOST:PORT" in done.stderr


@contextlib.contextmanager
def served(cli_env: dict[str, str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "ggmlprobe", "serve", "-p", str(port), "-t", "1"]
    process = subprocess.Popen(command, env=cli_env, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_serve_outlives_a_client_that_leaves_before_its_answer(
    cli: Cli, cli_env: dict[str, str], rpc_server: Start
) -> None:
    plain = rpc_server()
    plain.kill()
    address, port = plain.endpoint, int(plain.endpoint.partition(":")[2])
    with served(cli_env, port) as process:
        reach(address, 10.0)
        place = ("127.0.0.1", port)
        with socket.create_connection(place) as busy:
            busy.sendall(HELLO)
            busy.recv(1)
            with socket.create_connection(place) as leaving:
                leaving.sendall(HELLO)
        reach(address, 10.0)
        assert process.poll() is None
        assert loaded(cli(*RUN, "--device", f"rpc://{address}", "-o", "json")).results


def test_serve_refuses_what_the_server_would_end_on_with_success(cli: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for options, said in (
            (("-p", port), "in use"), (("-H", "999.1.1.1"), "999.1.1.1:50052: "),
            (("-p", "abc"), "not a valid integer"), (("-p", "0"), "1<=x<=65535"),
            (("-t", "0"), "1<=x<="), (("--bogus",), "--bogus"), (("nonsense",), "nonsense"),
        ):  # fmt: skip
            done = cli("serve", *options)
            assert (done.returncode, done.stdout) == (2, "")
            assert said in done.stderr
            assert done.stderr.count("\n") == 1


def test_serve_says_what_a_library_without_a_server_lacks(
    cli: Cli, foreign_libs: dict[str, Path]
) -> None:
    done = cli("serve", "--lib", foreign_libs["wheel"], "-p", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no ggml-rpc-server in" in done.stderr
    assert "-DGGML_RPC=ON" in done.stderr
