"""Monitoring of leader, follower and observer, compared with a real ensemble (docs/reference/zookeeper.md §5).

    pytest tests/conformance/test_ensemble_monitoring.py

The four-letter words are compared wherever there is Java. A real AdminServer needs Jetty, which is fetched where
SIMZK_JETTY_JARS names a folder for it, and in CI:

    SIMZK_JETTY_JARS=~/.cache/simzk-jetty pytest tests/conformance/test_ensemble_monitoring.py
"""

from __future__ import annotations

import http.client
import json
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from simzk.serve.clock import StillClock
from simzk.serve.configuration.settings import Settings
from simzk.wire.four_letter_words import WORDS
from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from tests.conformance import jetty
from tests.conformance.real_ensemble import OBSERVER, SERVERS, RealEnsemble
from tests.conformance.test_monitoring import form
from tests.serve.served import served_ensemble
from tests.serve.tcp_client import TcpClient, word

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = [pytest.mark.slow, pytest.mark.java]

ALL = (*SERVERS, OBSERVER)
ROLES = ("leader", "follower", "observer")
# The order of commands that change what others tell counts; the others come in that of their names.
RESETTING = ("connection_stat_reset", "observer_connection_stat_reset", "stat_reset")
# Those are of the machine, or compared elsewhere; restore is not there.
NOT_ASKED = {"environment", "system_properties", "restore", "set_trace_mask", "snapshot"}


class Told(NamedTuple):
    """Return a server's replies to words, and to commands if it has an AdminServer."""

    words: dict[str, str]
    commands: dict[str, tuple[int, str]]


class Ensemble(NamedTuple):
    """Whom to ask, by role."""

    ports: Mapping[int, int]
    admin_ports: Mapping[int, int]
    leader: int

    def server(self, role: str) -> int:
        follower = next(server for server in SERVERS if server != self.leader)
        return {"leader": self.leader, "follower": follower, "observer": OBSERVER}[role]

    def command(self, server: int, name: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_ports[server], timeout=30)
        connection.request("GET", f"/commands/{name}")
        response = connection.getresponse()
        body = response.read().decode()
        connection.close()
        return response.status, body

    def tell(self, *, commands: tuple[str, ...]) -> dict[str, Told]:
        """Return the replies of each role after a client of each server created, watched and read a znode."""
        with ExitStack() as stack:
            clients = {server: stack.enter_context(TcpClient(self.ports[server])) for server in ALL}
            for server, client in clients.items():
                client.connect(timeout_ms=30_000)
                client.ask(req.Create(f"/e{server}", b"x", req.OPEN_ACL, 1))
            for server, client in clients.items():
                client.ask(req.Sync("/"))
                client.ask(req.GetData(f"/e{server}", True))
            return {role: self._told(self.server(role), commands) for role in ROLES}

    def _told(self, server: int, commands: tuple[str, ...]) -> Told:
        words = sorted(set(WORDS) - {"srst", "crst", "stmk"})
        return Told(
            {name: word(self.ports[server], name.encode()) for name in words},
            {name: self.command(server, name) for name in commands},
        )


def asked(ensemble: Ensemble) -> tuple[str, ...]:
    """The commands that an AdminServer lists, those that reset something last."""
    connection = http.client.HTTPConnection("127.0.0.1", ensemble.admin_ports[1], timeout=30)
    connection.request("GET", "/commands")
    names = set(re.findall(r'/commands/(\w+)"', connection.getresponse().read().decode()))
    connection.close()
    return (*sorted(names - NOT_ASKED - set(RESETTING)), *RESETTING)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Told], dict[str, Told]]:
    """Replies of the real servers and of simzk's after the same story, with the same leader."""
    folder = jetty.jetty() if jetty.why_not() is None else None
    with RealEnsemble(observer=True, jetty=folder) as running:
        leader = running.leader
        ensemble = Ensemble(running.ports, running.admin_ports, leader)
        real = ensemble.tell(commands=() if folder is None else asked(ensemble))
    settings = Settings(
        data_directory=tmp_path_factory.mktemp("ensemble"),
        admin_port=0,
        init_limit=20,
        sync_limit=20,
        server=ServerConfig(tick_time_ms=500, max_session_timeout_ms=40_000),
    )
    with served_ensemble(settings, StillClock(), servers=3, observers=1) as served:
        served.tcp.verbs().elect(leader)
        ensemble = Ensemble(served.ports, served.admin_ports, leader)
        return real, ensemble.tell(commands=asked(ensemble))


@pytest.fixture
def real(both: tuple[dict[str, Told], dict[str, Told]]) -> dict[str, Told]:
    return both[0]


@pytest.fixture
def ours(both: tuple[dict[str, Told], dict[str, Told]]) -> dict[str, Told]:
    return both[1]


def told_lines(name: str, text: str) -> list[str]:
    """A word's text by lines of that form. Connections stand in no order; how many share a tick is chance."""
    lines = form(text).splitlines()
    return list(dict.fromkeys(lines)) if name == "dump" else sorted(lines)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", sorted(set(WORDS) - {"conf", "envi", "mntr", "srst", "crst", "stmk"}))
def test_words_have_the_real_form(real: dict[str, Told], ours: dict[str, Told], role: str, name: str) -> None:
    assert told_lines(name, ours[role].words[name]) == told_lines(name, real[role].words[name])


def settings_of(reported: Told) -> list[str]:
    """Return the reply to conf without paths and ports."""
    text = re.sub(r"(?<=:)\d+|(?<=[pP]ort=)\d+", "PORT", reported.words["conf"])
    text = re.sub(r"version=[0-9a-f]+$", "version=V", text)
    return [
        re.sub(r"=.*", "=", line) if line.startswith(("dataDir", "dataLog", "clientPortList", "maxClient")) else line
        for line in text.splitlines()
    ]


@pytest.mark.parametrize("role", ROLES)
def test_conf_tells_the_ensembles_settings(real: dict[str, Told], ours: dict[str, Told], role: str) -> None:
    assert settings_of(ours[role]) == settings_of(real[role])


# What is equal in value after the same requests; of all else only the form is.
EQUAL = re.compile(
    r"zk_(server_state|peer_state|observer_master_id|quorum_size|learners|synced_\w+|pending_syncs|\w+_proposal_size|"
    r"znode_count|ephemerals_count|watch_count|global_sessions|local_sessions|num_alive_connections|"
    r"\w+_client_response_size|commit_count|proposal_count|learner_\w+_received_count|"
    r"sync_processor_request_queued|connection_request_count|cnt_(read|update)latency|node_\w+_watch_count|"
    r"digest_mismatches_count)"
)
OWN = re.compile(r"zk_.*_per_namespace")
# Two gauges in one bucket of the real server's map: which comes first depends on how it grew.
IN_ONE_BUCKET = ("zk_avg_latency", "zk_num_alive_connections")


def monitored(reported: Told) -> dict[str, str]:
    """Return mntr's values by key, without the per-namespace ones."""
    values = dict(line.split("\t") for line in reported.words["mntr"].splitlines())
    return {key: value for key, value in values.items() if not OWN.fullmatch(key)}


@pytest.mark.parametrize("role", ROLES)
def test_monitoring_has_the_real_keys_and_values(real: dict[str, Told], ours: dict[str, Told], role: str) -> None:
    expected, reported = monitored(real[role]), monitored(ours[role])
    assert set(reported) == set(expected)
    ordered = [[key for key in values if key not in IN_ONE_BUCKET] for values in (reported, expected)]
    assert ordered[0] == ordered[1]
    equal = {key: value for key, value in expected.items() if EQUAL.fullmatch(key)}
    assert {key: reported[key] for key in equal} == equal


# Their values are compared by mntr, or are of one server's connections or disk; the form is compared all the same.
OF_FORM = ("monitor", "server_stats", "stats", "connections", "dirs", "dump", "last_snapshot", "observers")
# Bytes that wait behind an observer's connection: the real server's count of them goes below 0.
NUMBER = re.compile(r"-?\d+(\.\d+)?")


def json_form(value: Any) -> Any:
    """JSON with numbers for what they are, in keys too; lists of one form are one."""
    if isinstance(value, dict):
        fields = {NUMBER.sub("N", key): json_form(field) for key, field in value.items()}
        return {key: field for key, field in fields.items() if not OWN.fullmatch(f"zk_{key}")}
    if isinstance(value, list):
        return [json_form(item) for item in value[:1]]
    if isinstance(value, bool) or value is None:
        return value
    return NUMBER.sub("N", value) if isinstance(value, str) else "N"


# A place's own, or what ours is not told to be; a zxid's epoch is the last leader's, and there was one more.
OF_PLACE = {
    *("client_port", "data_dir", "data_log_dir", "max_client_cnxns", "client_port_listen_backlog"),
    *("all_ports", "zab_epoch", "last_zxid"),
}


def without_places(value: Any, key: str = "") -> Any:
    """JSON without ports, session ids, directories."""
    if key in OF_PLACE:
        return "its own"
    if isinstance(value, dict):
        return {re.sub(r"\d{17,}", "SESSION", name): without_places(field, name) for name, field in value.items()}
    if isinstance(value, list):
        return [without_places(item) for item in value]
    if isinstance(value, str):
        return re.sub(r"(?<=:)\d{4,5}$", "PORT", value)
    return "SESSION" if isinstance(value, int) and value >= 1 << 56 else value


@pytest.mark.skipif(jetty.why_not() is not None, reason=str(jetty.why_not()))
@pytest.mark.parametrize("role", ROLES)
def test_commands_tell_what_the_real_ones_do(real: dict[str, Told], ours: dict[str, Told], role: str) -> None:
    expected, reported = real[role].commands, ours[role].commands
    assert reported.keys() == expected.keys()
    assert len(reported) > 20
    for name, (status, answer) in reported.items():
        real_status, real_answer = expected[name]
        read = json_form if name in OF_FORM else without_places
        assert (name, status, read(json.loads(answer))) == (name, real_status, read(json.loads(real_answer)))
