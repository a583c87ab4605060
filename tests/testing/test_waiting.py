"""`wait_until`: wall time passes until a condition holds."""

from __future__ import annotations

import threading

import pytest

import simzk
from simzk.testing import wait_until
from tests.waiting import PATIENCE_S


def test_it_returns_what_the_condition_returned() -> None:
    found: list[str] = []
    threading.Timer(0.01, found.append, ["here"]).start()
    assert wait_until(lambda: found, PATIENCE_S) == ["here"]


def test_a_failed_assertion_means_not_yet() -> None:
    calls: list[int] = []

    def check() -> int:
        calls.append(1)
        assert len(calls) > 3
        return len(calls)

    assert wait_until(check, PATIENCE_S) == 4


def test_a_timeout_says_what_did_not_become_true() -> None:
    def is_ready() -> bool:
        return False

    with pytest.raises(TimeoutError, match=r"is_ready \(.*within 0 s; at last it returned False"):
        wait_until(is_ready, timeout_s=0)
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 // 0)
    with pytest.raises(simzk.ConfigError, match="timeout_s"):
        wait_until(is_ready, timeout_s=-1)
