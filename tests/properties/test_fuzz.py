"""A share of the fuzzer's rounds in every run: through host and store, and over TCP. The long run is fuzz.py's own."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import simzk
from simzk.zookeeper import requests as req
from simzk.zookeeper.server import Server
from tests.properties import fuzz
from tests.serve.tcp_client import TcpClient

SHARE = 50_000


@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_frames_break_nothing(seed: int) -> None:
    counted = fuzz.run(seed, SHARE)
    assert SHARE <= counted.mutated < counted.frames, "so many are mutated; some are not"
    assert 0 < counted.closed < counted.rounds, "some connections are closed, and some live to their end"


@given(st.integers(0, 2**64), st.binary(max_size=200))
def test_any_bytes_behind_any_rounds_break_nothing(seed: int, tail: bytes) -> None:
    fuzzed, random = fuzz.Fuzzed(), Random(seed)
    for _ in range(3):
        fuzzed.attack(fuzz.pieces(random, fuzz.session_of(random, 4).data + tail))
        fuzzed.serve_another()
    fuzzed.end_sessions()
    fuzzed.server.check()


def test_memory_stays_bounded() -> None:
    fuzz.run(3, 500)
    tracemalloc.start()
    try:
        fuzz.run(3, 3_000)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 4 << 20


def test_mutated_frames_over_tcp_break_nothing() -> None:
    with simzk.ZooKeeperServer() as server, TcpClient(server.port) as other:
        other.connect()
        for number in range(60):
            random = Random(f"tcp/{number}")
            with TcpClient(server.port) as client:
                for piece in fuzz.pieces(random, fuzz.session_of(random, 8).data):
                    try:
                        client.socket.sendall(piece)
                    except (BrokenPipeError, ConnectionResetError):
                        break
            assert other.ask(req.Sync("/")).error == 0
        with server.lock:
            server.server.check()


def test_an_exception_that_escapes_names_its_round(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Server, *arguments: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(Server, "handle", broken)
    with pytest.raises(AssertionError, match=r"seed 1, round \d+: KeyError: 'planted'"):
        fuzz.run(1, 100)
