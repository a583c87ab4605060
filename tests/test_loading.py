"""Modules are loaded without the collector, and it is as it was behind the last of the threads that load."""

from __future__ import annotations

import gc
import sys
import threading
import types
from functools import partial
from typing import TYPE_CHECKING

import pytest

from simzk.loading import load
from tests.waiting import PATIENCE_S, in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def collector() -> Iterator[None]:
    """Back to how it was, whatever a test does."""
    was_enabled = gc.isenabled()
    yield
    (gc.enable if was_enabled else gc.disable)()


class Waiting(types.ModuleType):
    """A module whose attributes come when they are let."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.asked, self.let = threading.Event(), threading.Event()

    @property
    def value(self) -> bool:
        self.asked.set()
        assert self.let.wait(PATIENCE_S)
        return gc.isenabled()


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_off_until_the_last_has_loaded(
    enabled: bool, collector: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = [Waiting("first_to_load"), Waiting("second_to_load")]
    for module in modules:
        monkeypatch.setitem(sys.modules, module.__name__, module)
    (gc.enable if enabled else gc.disable)()
    loads = []
    for module in modules:
        loads.append(in_thread(partial(load, module.__name__, "value")))
        assert module.asked.wait(PATIENCE_S)
    # The first to begin ends first: the second, which found the collector off, is still loading.
    for module, loaded in zip(modules, loads, strict=True):
        module.let.set()
        assert loaded.result(PATIENCE_S) is False
    assert gc.isenabled() is enabled


def test_a_module_that_fails_to_load_leaves_the_collector_on(collector: None) -> None:
    gc.enable()
    with pytest.raises(ModuleNotFoundError):
        load("simzk.there_is_no_such_module", "value")
    assert gc.isenabled()
