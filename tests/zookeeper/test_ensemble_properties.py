"""Whatever happens to the servers of an ensemble, its promises hold (§7): stops, pauses, cuts, elections.

What is held, at every step: a session's zxids never go back; replies keep their order; a session reads what it wrote;
a read behind a sync sees what was acknowledged before the sync; servers that are equally far are equal. At the end,
once all is healed: nothing acknowledged is lost, and all trees are equal.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from simzk.zookeeper import requests as req
from simzk.zookeeper.ensemble import Ensemble, EnsembleConfig, Role
from tests.zookeeper.ensemble_clients import KEY, NOTHING, Client, answer, connected, create, deliver

CLIENTS = 4
ASKED = ("write", "read", "read", "sync", "make", "make_ephemeral")
CHOICE = st.integers(0, 1 << 16)


class EnsembleMachine(RuleBasedStateMachine):
    """Clients write to one key, and nodes of their own.

    The order of writes is that of their zxids: a write that waits for a silent server may be applied after a later one.
    """

    @initialize(
        servers=st.sampled_from([1, 3, 5]),
        election_ms=st.sampled_from([0, 400]),
        sync_limit_ms=st.sampled_from([0, 2_000]),
        read_only=st.booleans(),
        local=st.sampled_from([(False, False), (True, False), (True, True)]),
    )
    def begin(
        self, servers: int, election_ms: int, sync_limit_ms: int, read_only: bool, local: tuple[bool, bool]
    ) -> None:
        self.now_ms = 0
        config = EnsembleConfig(
            servers,
            election_ms=election_ms,
            sync_limit_ms=sync_limit_ms,
            read_only=read_only,
            read_only_after_ms=2000,
            local_sessions=local[0],
            upgrades_sessions=local[1],
        )
        self.ensemble = Ensemble(config)
        answer(connected(self.ensemble, 1), create(KEY))
        self.clients = [Client(self.ensemble, f"10.0.0.{index}") for index in range(CLIENTS)]
        self.submitted = 0
        self.asked: list[tuple[Client, int, str]] = []
        self.acknowledged_zxid = NOTHING  # of the last acknowledged write of the key
        self.made: list[str] = []
        for index, client in enumerate(self.clients):
            client.connect(self.server(index), self.now_ms)

    def server(self, choice: int) -> int:
        return choice % len(self.ensemble.members) + 1

    def client(self, choice: int) -> Client:
        return self.clients[choice % CLIENTS]

    def is_paused(self, server: int) -> bool:
        """Return whether a server is paused: its driver passes no request to it."""
        return server in self.ensemble.paused

    def can_ask(self, client: Client) -> bool:
        return client.is_connected and client.member is not None and not self.is_paused(client.member.server_id)

    # Clients

    @rule(who=CHOICE, where=CHOICE, read_only=st.booleans())
    def attach(self, who: int, where: int, read_only: bool) -> None:
        if self.is_paused(self.server(where)):
            return
        self.client(who).connect(self.server(where), self.now_ms, read_only=read_only)

    @rule(who=CHOICE)
    def detach(self, who: int) -> None:
        self.client(who).leave()

    @rule(who=CHOICE, where=CHOICE, moves=st.booleans(), what=st.lists(st.sampled_from(ASKED), min_size=1, max_size=6))
    def talk(self, who: int, where: int, moves: bool, what: list[str]) -> None:
        """One client asks several things at once, on the server where it is or on another."""
        client = self.client(who)
        if (moves or not client.is_connected) and not self.is_paused(self.server(where)):
            client.connect(self.server(where), self.now_ms)
        for asked in what:
            if self.can_ask(client):
                getattr(self, f"ask_{asked}")(client)

    @rule(who=st.lists(CHOICE, min_size=4, max_size=12), what=st.lists(st.sampled_from(ASKED), min_size=12))
    def chat(self, who: list[int], what: list[str]) -> None:
        """All clients that are there ask, in turns."""
        for index, asked in zip(who, what, strict=False):
            if self.can_ask(self.client(index)):
                getattr(self, f"ask_{asked}")(self.client(index))

    def ask_write(self, client: Client) -> None:
        self.submitted += 1
        xid = client.ask(req.SetData(KEY, str(self.submitted).encode(), -1), self.now_ms)
        self.asked.append((client, xid, KEY))

    def ask_make(self, client: Client) -> None:
        self.submitted += 1
        path = f"/made-{self.submitted}"
        self.asked.append((client, client.ask(create(path), self.now_ms), path))

    def ask_make_ephemeral(self, client: Client) -> None:
        self.submitted += 1
        client.ask(create(f"/ephemeral-{self.submitted}", 1), self.now_ms)

    def ask_read(self, client: Client) -> None:
        client.ask(req.GetData(KEY, True), self.now_ms)

    def ask_sync(self, client: Client) -> None:
        self.note_answers()
        client.ask(req.Sync(KEY), self.now_ms, self.acknowledged_zxid)

    @rule(who=CHOICE)
    def end_session(self, who: int) -> None:
        client = self.client(who)
        if self.can_ask(client):
            client.ask(req.CloseSession(), self.now_ms)

    # Servers

    @rule(which=CHOICE)
    def stop_or_start(self, which: int) -> None:
        server = self.server(which)
        if self.ensemble.members[server].role is Role.DOWN:
            self.ensemble.start(server, self.now_ms)
        else:
            self.ensemble.stop(server, self.now_ms)

    @rule(which=CHOICE)
    def pause_or_resume(self, which: int) -> None:
        server = self.server(which)
        if self.is_paused(server):
            self.ensemble.resume(server, self.now_ms)
        elif self.ensemble.members[server].role is not Role.DOWN:
            self.ensemble.pause(server, self.now_ms)

    @rule(which=st.lists(CHOICE, min_size=1, max_size=2))
    def cut(self, which: list[int]) -> None:
        self.ensemble.cut(*{self.server(one): None for one in which}, now_ms=self.now_ms)

    @rule()
    def heal(self) -> None:
        self.ensemble.heal(self.now_ms)

    @rule(which=CHOICE)
    def heal_one(self, which: int) -> None:
        self.ensemble.heal(self.now_ms, self.server(which))

    @rule(which=CHOICE, lag_ms=st.sampled_from([0, 0, 300]), transactions=st.sampled_from([0, 0, 1, 4]))
    def lag(self, which: int, lag_ms: int, transactions: int) -> None:
        self.ensemble.lag(self.server(which), self.now_ms, lag_ms=lag_ms, transactions=transactions)

    @rule(which=CHOICE)
    def elect(self, which: int) -> None:
        leader = self.ensemble.shared.leading
        if leader is not None and not self.ensemble.awaits_servers:
            able = [
                member.server_id
                for member in self.ensemble.members.values()
                if member.role in (Role.LEADING, Role.FOLLOWING) and not self.is_paused(member.server_id)
            ]
            if len(able) * 2 > len(self.ensemble.shared.membership.voters):
                self.ensemble.elect(self.now_ms, able[which % len(able)])

    @rule(duration_ms=st.sampled_from([1, 100, 300, 1000, 15_000]))
    def go_by(self, duration_ms: int) -> None:
        self.advance(duration_ms)

    def advance(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while (deadline_ms := self.ensemble.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.ensemble.tick(self.now_ms)
            deliver(self.ensemble)
        self.now_ms = end_ms

    # What must hold

    @invariant()
    def is_sound(self) -> None:
        if not hasattr(self, "ensemble"):
            return
        self.ensemble.check()
        self.note_answers()

    def note_answers(self) -> None:
        """Acknowledged writes are never lost."""
        deliver(self.ensemble)
        waiting = []
        for client, xid, path in self.asked:
            reply = client.reply_to(xid)
            if reply is None:
                waiting.append((client, xid, path))
            elif reply.error:
                continue
            elif path == KEY:
                self.acknowledged_zxid = max(self.acknowledged_zxid, reply.zxid)
            else:
                self.made.append(path)
        self.asked = waiting

    def teardown(self) -> None:
        if not hasattr(self, "ensemble"):
            return
        self.is_sound()
        for server, member in self.ensemble.members.items():
            self.ensemble.lag(server, self.now_ms)
            if member.role is Role.DOWN:
                self.ensemble.start(server, self.now_ms)
            if self.is_paused(server):
                self.ensemble.resume(server, self.now_ms)
        self.ensemble.heal(self.now_ms)
        self.advance(5_000)
        self.ensemble.check()
        assert self.ensemble.shared.leading is not None
        assert {member.position for member in self.ensemble.members.values()} == {self.ensemble.shared.history.end}
        for member in self.ensemble.members.values():
            node = member.tree.get(KEY)
            assert node is not None
            assert node.mzxid >= self.acknowledged_zxid, "no acknowledged write is lost"
            assert all(path in member.tree for path in self.made), "no acknowledged node is lost"
        client = connected(self.ensemble, 1, self.now_ms)
        answer(client, create("/last"), self.now_ms)
        assert all("/last" in member.tree for member in self.ensemble.members.values())


TestEnsemble = EnsembleMachine.TestCase
TestEnsemble.settings = settings(stateful_step_count=40)
