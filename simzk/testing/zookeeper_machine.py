"""Hypothesis state machine that breaks the sessions and requests of kazoo clients, to subclass.

Rules of this module:
  - the subclass adds rules that call the code under test, and invariants; the machine adds what goes wrong in between;
  - after every step all clients are settled, so that an invariant sees what callbacks have done, and examples repeat;
  - virtual time moves only in a step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from simzk.testing.kafka_machine import MACHINE_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from kazoo.client import KazooClient

    import simzk

ResultT = TypeVar("ResultT")

WRITES = ("create", "set", "delete", "transaction")
"""Operations whose requests or replies the machine loses."""


class ZooKeeperMachine(RuleBasedStateMachine):
    """State machine over clients of one ZooKeeper in memory, which expires and disconnects them and loses requests.

    A subclass starts the code under test in `begin`, and adds rules and invariants:

        class ElectionMachine(ZooKeeperMachine):
            def begin(self):
                self.candidates = [Candidate(client) for client in self.kazoo]

            @rule(number=ZooKeeperMachine.numbers)
            def campaign(self, number):
                self.attempt(self.candidates[number].campaign)

            @invariant()
            def there_is_one_leader(self):
                assert sum(candidate.leads for candidate in self.candidates) <= 1

        TestElection = ElectionMachine.TestCase

    Attributes:
        clients: number of clients, set by a subclass.
        numbers: strategy for the number of a client, from 0.
        zookeeper: the server, set by the first step.
        kazoo: the started clients.
    """

    clients = 2
    numbers: st.SearchStrategy[int] = st.runner().flatmap(lambda self: st.integers(0, self.clients - 1))
    zookeeper: simzk.ZooKeeper
    kazoo: list[KazooClient]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.TestCase.settings = MACHINE_SETTINGS

    def new_client(self, number: int) -> KazooClient:
        """Return a client that is not yet started; for subclasses whose code makes its own clients."""
        return self.zookeeper.client()

    def begin(self) -> None:
        """Start the code under test on the clients; for subclasses."""

    def attempt(self, action: Callable[..., ResultT], *arguments: object) -> ResultT | None:
        """Call a function of the code under test; return its result, or None after an error of kazoo.

        An error that is none of ZooKeeper's fails the example. Losing a connection is what the machine is for, and the
        code under test may report it.
        """
        from kazoo.exceptions import KazooException
        from kazoo.handlers.threading import KazooTimeoutError

        try:
            return action(*arguments)
        except (KazooException, KazooTimeoutError):
            return None
        finally:
            self.zookeeper.settle()

    @initialize()
    def start_clients(self) -> None:
        """Start the server and the clients."""
        import simzk

        self.zookeeper = simzk.ZooKeeper()
        self.kazoo = [self.new_client(number) for number in range(self.clients)]
        for client in self.kazoo:
            client.start()
        self.begin()
        self.zookeeper.settle()

    @rule(number=numbers)
    def expire(self, number: int) -> None:
        """Expire a client's session: kazoo reports LOST and opens a new one."""
        self.zookeeper.expire(self.kazoo[number])
        self.zookeeper.settle()

    @rule(number=numbers)
    def disconnect(self, number: int) -> None:
        """Close a client's connection: kazoo reports SUSPENDED and reconnects with the same session."""
        self.zookeeper.disconnect(self.kazoo[number])
        self.zookeeper.settle()

    @rule(number=numbers, op=st.sampled_from(WRITES))
    def lose_next_request(self, number: int, op: str) -> None:
        """Lose the next write of a client and its connection before it is applied."""
        self.zookeeper.faults.drop_request(op, client=self.kazoo[number])

    @rule(number=numbers, op=st.sampled_from(WRITES))
    def lose_next_reply(self, number: int, op: str) -> None:
        """Apply the next write of a client, and lose its reply and the connection."""
        self.zookeeper.faults.drop_reply(op, client=self.kazoo[number])

    @rule(seconds=st.sampled_from([1, 5, 30]))
    def advance(self, seconds: int) -> None:
        """Let virtual time pass, for containers, TTL nodes and sessions without a connection."""
        self.zookeeper.advance(seconds)
        self.zookeeper.settle()

    def teardown(self) -> None:
        """Stop the clients and the server."""
        if hasattr(self, "zookeeper"):
            self.zookeeper.close()
            del self.zookeeper, self.kazoo
