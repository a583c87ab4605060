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


def test_what_is_loaded_is_old_at_once(collector: None, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("made_of_much")
    made = module.__dict__["value"] = [[number] for number in range(1000)]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    gc.enable()
    assert load(module.__name__, "value") is made
    young = {id(one) for generation in (0, 1) for one in gc.get_objects(generation)}
    assert not young & {id(one) for one in made}
    assert gc.get_freeze_count() == 0


def test_what_somebody_has_set_aside_stays_there(collector: None) -> None:
    aside = [[number] for number in range(1000)]
    gc.enable()
    gc.freeze()
    try:
        load("simzk.errors", "SimzkError")
        collected = {id(one) for one in gc.get_objects()}
        assert not collected & {id(one) for one in aside}
    finally:
        gc.unfreeze()
