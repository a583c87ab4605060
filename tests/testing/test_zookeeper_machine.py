"""The state machine over kazoo clients, as a user subclasses it: it finds known mistakes of ZooKeeper's users."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import invariant, rule, run_state_machine_as_test
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss

from simzk.testing import MACHINE_SETTINGS, ZooKeeperMachine

if TYPE_CHECKING:
    from hypothesis import strategies as st

FIND = settings(MACHINE_SETTINGS, max_examples=200, database=None, phases=[Phase.generate], stateful_step_count=20)


class Ledger(ZooKeeperMachine):
    """Appends numbered entries; a lost connection is retried, as if the entry had not been written."""

    retries = True

    def begin(self) -> None:
        self.appended = 0
        self.kazoo[0].create("/ledger")

    @rule(number=ZooKeeperMachine.numbers)
    def append(self, number: int) -> None:
        client = self.kazoo[number]
        self.appended += 1
        try:
            client.create("/ledger/entry-", sequence=True)
        except ConnectionLoss:
            if self.retries:
                client.retry(client.create, "/ledger/entry-", sequence=True)
        self.zookeeper.settle()

    @invariant()
    def each_entry_is_written_once(self) -> None:
        if hasattr(self, "zookeeper"):
            node = self.zookeeper.server.tree.get("/ledger")
            assert node is not None
            assert node.child_count <= self.appended, f"{node.child_count} entries of {self.appended}"


def test_a_retry_that_writes_twice_is_found() -> None:
    with pytest.raises(AssertionError, match=r"\d+ entries of \d+"):
        run_state_machine_as_test(Ledger, settings=FIND)


class CarefulLedger(Ledger):
    """Leaves open whether a lost request was applied."""

    retries = False


def test_correct_code_passes_and_nothing_is_left() -> None:
    run_state_machine_as_test(CarefulLedger, settings=settings(FIND, max_examples=10, derandomize=True))


class OwnClients(ZooKeeperMachine):
    """The code under test makes three clients itself."""

    clients = 3
    used: set[int]

    def new_client(self, number: int) -> KazooClient:
        return KazooClient(handler=self.zookeeper.handler(), timeout=5)

    def begin(self) -> None:
        self.used = set()

    @rule(number=ZooKeeperMachine.numbers)
    def ask(self, number: int) -> None:
        self.used.add(number)
        assert self.attempt(self.kazoo[number].exists, "/") is not None

    def teardown(self) -> None:
        if hasattr(self, "kazoo"):
            for client in self.kazoo:
                client.stop()
                client.close()
            SEEN.update(self.used)
        super().teardown()


SEEN: set[int] = set()


def test_clients_that_the_code_makes_itself() -> None:
    run_state_machine_as_test(OwnClients, settings=settings(FIND, max_examples=8, derandomize=True))
    assert sorted(SEEN) == [0, 1, 2]


def test_the_settings_are_those_of_each_subclass() -> None:
    default: st.SearchStrategy[int] = ZooKeeperMachine.numbers
    assert default is OwnClients.numbers
    for kind in (Ledger, OwnClients):
        assert kind.TestCase.settings.phases == MACHINE_SETTINGS.phases
        assert Phase.explain not in kind.TestCase.settings.phases
