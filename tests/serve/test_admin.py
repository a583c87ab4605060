"""The AdminServer: the real one's answers, recorded from a 3.9.5, and test verbs over HTTP (§5)."""

from __future__ import annotations

import http.client
import json
import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from simzk.serve.configuration.settings import Settings, Storage
from simzk.serve.storage.data_directory import DataDirectory
from simzk.zookeeper import requests as req
from simzk.zookeeper.acl import digest_id
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.replies import Closed, Code, Reply
from tests.serve.served import Served, served
from tests.serve.tcp_client import TcpClient

if TYPE_CHECKING:
    from collections.abc import Iterator

# What a real server answered when one client with the ephemeral /e watched /e and the missing /zz.
RECORDED: dict[str, str] = json.loads((Path(__file__).parent / "data" / "admin_3.9.5.json").read_text())
# simzk reports a part of these; the others count parts of the real server that simzk lacks, or its JVM.
PARTIAL = {"monitor", "environment"}


@pytest.fixture
def client(server: Served) -> Iterator[TcpClient]:
    with TcpClient(server.port) as one:
        one.connect()
        one.ask(req.Create("/e", b"x", req.OPEN_ACL, 1))
        one.ask(req.Create("/f", b"y" * 10, req.OPEN_ACL, 0))
        one.ask(req.GetData("/e", True))
        one.ask(req.Exists("/zz", True))
        yield one


# What a real 3.9.5 lists at /commands.
LISTED = {re.sub(r"\?.*", "", command) for command in RECORDED} - {"nonsense"} | {
    "restore",
    "snapshot",
    "system_properties",
}


def ask(server: Served, target: str, method: str = "GET") -> tuple[int, str | None, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=30)
    connection.request(method, target)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, response.getheader("Content-Type"), body


def snapshot(server: Served, authorization: str | None, query: str = "") -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=30)
    headers = {} if authorization is None else {"Authorization": authorization}
    connection.request("GET", f"/commands/snapshot{query}", headers=headers)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, dict(response.getheaders()), body


# As a real 3.9.5 answers when the root is everybody's.
@pytest.mark.parametrize(
    ("authorization", "status", "error"),
    [
        (None, 401, "Auth info is missing for the command"),
        ("", 401, "Not authenticated"),
        ("digest", 401, "Not authenticated"),
        ("DIGEST a:b", 401, "Not authenticated"),
        ("digest a:b c", 401, "Not authenticated"),
        ("world anyone", 401, "Not authenticated"),
        ("digest a:b", 200, None),
        ("ip x", 200, None),
        ("ip", 200, None),
        ("ip  x", 401, "Not authenticated"),
        ("x509", 401, "Not authenticated"),
    ],
)
def test_a_snapshot_is_for_who_shows_themselves(
    server: Served, authorization: str | None, status: int, error: str | None
) -> None:
    said, headers, body = snapshot(server, authorization)
    assert said == status
    if error is not None:
        assert json.loads(body) == {"command": "snapshot", "error": error}
    else:
        assert (headers["last_zxid"], headers["snapshot_size"]) == ("0x0", str(len(body)))


def test_a_snapshot_is_for_who_may_do_all_with_the_root() -> None:
    config = ServerConfig(super_digest=f"super:{digest_id(b'super:test').partition(':')[2]}")
    with served(Settings(admin_port=0, server=config)) as server, TcpClient(server.port) as client:
        client.connect()
        some, rest = req.ACL(15, req.Id("world", "anyone")), req.ACL(16, req.Id("digest", digest_id(b"m:p")))
        client.ask(req.SetACL("/", (some, rest), -1))  # all, by several entries
        assert [snapshot(server, f"digest {who}")[0] for who in ("m:p", "u:p")] == [200, 403]
        client.ask(req.Auth(0, "digest", b"m:p"))
        client.ask(req.SetACL("/", (req.ACL(15, req.Id("digest", digest_id(b"u:p"))),), -1))
        assert [snapshot(server, f"digest {who}")[0] for who in ("u:p", "o:o", "super:test")] == [403, 403, 200]


@pytest.mark.parametrize("kept", [False, True])
def test_what_a_snapshot_holds(tmp_path: Path, kept: bool) -> None:
    settings = Settings(admin_port=0, data_directory=tmp_path / "kept" if kept else None, storage=Storage(fsync=False))
    with served(settings) as server, TcpClient(server.port) as client:
        client.connect()
        client.ask(req.Create("/a", b"x", req.OPEN_ACL, 0))
        status, headers, data = snapshot(server, "ip x")
        assert (status, headers["last_zxid"], headers["Content-Type"]) == (200, "0x2", "application/octet-stream")
        client.ask(req.Create("/b", b"", req.OPEN_ACL, 0))
        assert json.loads(snapshot(server, "ip x", "?streaming=false")[2]) == {"command": "snapshot", "error": None}
        if kept:
            written = {path.name for path in (tmp_path / "kept" / "version-2").iterdir()}
            assert written == {"snapshot.0", "snapshot.2", "snapshot.3", "log.1", "log.3"}
    place = tmp_path / "copy" / "version-2"
    place.mkdir(parents=True)
    (place / "snapshot.2").write_bytes(data)
    with closing(DataDirectory(tmp_path / "copy", Storage(fsync=False))) as directory:
        tree = directory.load(ServerConfig(), 0).tree
        assert directory.losses == []
        assert [path for path, _ in tree.walk() if path in ("/a", "/b")] == ["/a"]


def test_snapshots_come_every_so_often() -> None:
    with served(Settings(admin_port=0, snapshot_interval_ms=300_000)) as server:
        assert [snapshot(server, "ip x")[0] for _ in range(2)] == [200, 429]


def test_properties_are_those_of_the_file(tmp_path: Path) -> None:
    text = "dataDir=/x\ntickTime=9\nsome.unknown=1\nzookeeper.other=2\nadmin.serverPort=3\n"
    with served(Settings(admin_port=0, text=text)) as server:
        reported = json.loads(ask(server, "/commands/system_properties")[2])
    assert {key: value for key, value in reported.items() if key.startswith("zookeeper.")} == {
        "zookeeper.admin.serverPort": "3",
        "zookeeper.some.unknown": "1",
        "zookeeper.zookeeper.other": "2",
    }
    assert list(reported)[-2:] == ["command", "error"]
    assert list(reported)[:-2] == sorted(list(reported)[:-2])


def form(value: Any) -> Any:
    """Return a value with numbers, texts and ids in keys replaced by their kinds."""
    if isinstance(value, dict):
        return {re.sub(r"^\d+$", "N", key): form(field) for key, field in value.items()}
    if isinstance(value, list):
        return [form(item) for item in value]
    return value if isinstance(value, bool) or value is None else type(value).__name__


def part_of(whole: Any, part: Any) -> Any:
    """Return the part of a recorded value with these keys, in the recorded order."""
    if isinstance(whole, dict) and isinstance(part, dict):
        return {key: part_of(field, part[key]) for key, field in whole.items() if key in part}
    return whole


@pytest.mark.parametrize("command", sorted(RECORDED))
def test_a_command_answers_in_the_recorded_form(server: Served, client: TcpClient, command: str) -> None:
    status, kind, body = ask(server, f"/commands/{command}")
    assert (status, kind) == (200, "application/json")
    recorded, ours = json.loads(RECORDED[command]), json.loads(body)
    if command.startswith("initial_configuration"):
        recorded["initial_configuration"] = None  # this server was started without a file
    if command in PARTIAL:
        recorded = part_of(recorded, ours)
    assert json.dumps(form(ours)) == json.dumps(form(recorded))
    if ours["error"] is not None:
        assert ours["error"] == recorded["error"]


def test_the_layout_is_the_recorded_one(server: Served, client: TcpClient) -> None:
    for command in ("watches_by_path", "dump", "connections", "voting_view", "hash"):
        numbers = re.compile(r"\d+")
        real, ours = (numbers.sub("N", text) for text in (RECORDED[command], ask(server, f"/commands/{command}")[2]))
        assert ours.replace("NONE", "SESS") == real.replace("NONE", "SESS")


def test_other_names_and_the_list(server: Served) -> None:
    assert json.loads(ask(server, "/commands/srvr")[2])["command"] == "server_stats"
    status, kind, body = ask(server, "/commands")
    assert (status, kind) == (200, None)  # as the real server says of its list
    assert re.findall(r'<a href="/commands/(\w+)">\1</a>\n<br/>\n', body) == sorted(LISTED)


def test_the_trace_mask_is_kept(server: Served) -> None:
    assert json.loads(ask(server, "/commands/stmk?traceMask=%D9%A3")[2])["error"] is None  # a digit of Arabic
    assert json.loads(ask(server, "/commands/stmk?traceMask=5")[2])["tracemask"] == 5
    assert json.loads(ask(server, "/commands/gtmk")[2])["tracemask"] == 5
    assert "requires long" in json.loads(ask(server, "/commands/stmk?traceMask=x")[2])["error"]


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/x", 404),
        ("POST", "/commands/ruok", 500),
        ("POST", "/commands/nonsense", 200),
        ("POST", "/commands", 200),
        ("PUT", "/commands/ruok", 405),
        ("TRACE", "/commands/ruok", 403),
        ("OPTIONS", "/commands/ruok", 200),
        ("POST", "/", 405),
        ("GET", "/faults/expire?session=1", 405),
        ("HEAD", "/x", 404),
    ],
)
def test_what_is_not_there_is_said(server: Served, method: str, target: str, status: int) -> None:
    assert ask(server, target, method)[0] == status


# Faults


def inject(server: Served, target: str) -> str | None:
    error: str | None = json.loads(ask(server, f"/faults/{target}", "POST")[2])["error"]
    return error


def session_of(server: Served) -> int:
    reported = json.loads(ask(server, "/commands/connections")[2])
    session_id: int = reported["connections"][0]["session_id"]
    return session_id


def test_a_session_can_be_expired(server: Served, client: TcpClient) -> None:
    assert inject(server, f"expire?session={session_of(server)}") is None
    events = [client.next(), client.next()]
    assert isinstance(events[1], Closed)
    error = inject(server, "expire?session=0x77")
    assert error == "session: there is no session 0x77; expected the id of a live session"


def test_a_session_can_be_disconnected_and_taken_up_again(server: Served) -> None:
    with TcpClient(server.port) as first, TcpClient(server.port) as second:
        session = first.connect()
        assert inject(server, f"disconnect?session=0x{session.session_id:x}") is None
        assert isinstance(first.next(), Closed)
        assert second.connect(session=session).session_id == session.session_id


def test_a_paused_session_is_answered_when_it_is_resumed(server: Served, client: TcpClient) -> None:
    session_id = session_of(server)
    assert inject(server, f"pause?session={session_id}") is None
    client.send(*[req.SetData("/f", b"%d" % number, -1) for number in range(500)])
    with TcpClient(server.port) as other:
        other.connect()
        assert other.ask(req.GetData("/f", False)).body[0] == b"y" * 10  # type: ignore[index]
    assert inject(server, f"resume?session={session_id}") is None
    replies = [client.next() for _ in range(500)]
    assert [reply.xid for reply in replies if isinstance(reply, Reply)] == list(range(5, 505))


def test_requests_can_be_made_to_fail(server: Served, client: TcpClient) -> None:
    assert inject(server, "fail_next?op=get&error=NoNodeError&n=2") is None
    assert inject(server, "fail_next?op=create&error=NODE_EXISTS") is None
    codes = [client.ask(req.GetData("/f", False)).error for _ in range(3)]
    assert codes == [Code.NO_NODE, Code.NO_NODE, 0]
    assert client.ask(req.Create("/new", b"", req.OPEN_ACL, 0)).error == Code.NODE_EXISTS


@pytest.mark.parametrize(
    "target",
    ["dance", "expire", "expire?session=x", "fail_next?op=fly&error=NoNodeError", "fail_next?op=get&error=Sorrow"],
)
def test_a_fault_that_cannot_be_is_said(server: Served, target: str) -> None:
    assert ask(server, f"/faults/{target}", "POST")[0] == 400
