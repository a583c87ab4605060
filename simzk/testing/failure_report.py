"""Section "simzk" in pytest's report of a failed test: events, requests, sessions and znodes of the test's servers.

Rules of this module:
  - pytest loads it in every run, so importing it imports nothing but pytest; servers are recognized only after
    something else has imported them;
  - a server belongs to a test if a fixture of the test returned it, whoever wrote the fixture;
  - "since the start" counts from the creation of the fixture, or from the start of the test if the fixture is older;
  - a failure of the report becomes one line of the report, and the test's own failure stays.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence

    from _pytest.nodes import Node

    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.serve.request_recorder import Exchange, Notice
    from simzk.serve.verbs import TestServer
    from simzk.simulation.history import Event

    Watched: TypeAlias = TestServer | KafkaCluster

EVENTS_MAX = 20
"""Number of events in the section, the latest ones."""
LINES_MAX = 20
"""Number of sessions and of changed znodes in the section."""
ZNODES_MAX = 10_000
"""Number of znodes up to which the tree at the start is stored; the difference of a larger tree is left out."""
TEXT_MAX = 72
"""Length to which data of a znode is cut."""
LOCK_TIMEOUT_S = 5.0
"""Time to wait for the lock of a server: a test that failed by a timeout may still hold it."""


# What is known about a test's servers


class Start(NamedTuple):
    """State of a server when the test began.

    Args:
        name: the name of the fixture.
        watched: the server or cluster.
        zxid: the last zxid.
        data: the data by path; None for a tree that is too large.
        mark: place in the recorded requests; None if none was recorded.
        events: number of events in a cluster's history.
        at_ms: the server's time.
    """

    name: str
    watched: Watched
    zxid: int
    data: dict[str, bytes | None] | None
    mark: Notice | None
    events: int
    at_ms: int


_STARTS = pytest.StashKey[dict[str, Start]]()


def watched_kinds() -> tuple[type, ...]:
    """Return the classes of servers and clusters that were imported."""
    found = (("simzk.serve.verbs", "TestServer"), ("simzk.kafka.cluster.cluster", "KafkaCluster"))
    return tuple(getattr(sys.modules[module], name) for module, name in found if module in sys.modules)


def note_start(node: Node, name: str, watched: Watched) -> None:
    """Store the present state of a server as the start of the tests of `node`."""
    cluster = _cluster_of(watched)
    server = watched.server
    with _locked(watched.lock):
        small = len(server.tree) <= ZNODES_MAX
        test_server = _test_server_of(watched)
        start = Start(
            name,
            watched,
            server.zxid,
            {path: one.data for path, one in server.tree.in_any_order()} if small else None,
            None if test_server is None else test_server.recorder.mark(),
            0 if cluster is None else len(cluster.history),
            watched.now_ms,
        )
    node.stash.setdefault(_STARTS, {})[name] = start


def starts_of(item: pytest.Item) -> list[Start]:
    """Return the servers of a test's fixtures, clusters first; a cluster's own ZooKeeper is part of the cluster."""
    # Fixtures that others request by name while they run are only in the private dictionary of the request.
    requested: Collection[str] = getattr(getattr(item, "_request", None), "_fixture_defs", ())
    names = {*getattr(item, "fixturenames", ()), *requested}
    found = [start for start in _all_starts(item) if start.name in names]
    found.sort(key=lambda start: _cluster_of(start.watched) is None)
    # Two fixtures may return one object.
    return list({id(start.watched.server): start for start in reversed(found)}.values())[::-1]


def _all_starts(item: pytest.Item) -> list[Start]:
    """Return the servers of all fixtures that are set up for a test or the nodes above it."""
    return [start for node in item.listchain() for start in node.stash.get(_STARTS, {}).values()]


def _cluster_of(watched: Watched) -> KafkaCluster | None:
    return watched if hasattr(watched, "history") else None  # type: ignore[return-value]


def _test_server_of(watched: Watched) -> TestServer | None:
    """Return the object that records the requests of kazoo clients; None if a cluster never had one."""
    return getattr(watched, "_zookeeper", None) if _cluster_of(watched) is not None else watched  # type: ignore[return-value]


@contextmanager
def _locked(lock: object) -> Iterator[None]:
    """Acquire a lock of threads, or no lock.

    Raises:
        TimeoutError: another thread holds it.
    """
    acquire: Callable[..., bool] | None = getattr(lock, "acquire", None)
    if acquire is not None and not acquire(timeout=LOCK_TIMEOUT_S):
        raise TimeoutError(f"another thread has held the server's lock for {LOCK_TIMEOUT_S:g} s")
    try:
        yield
    finally:
        if acquire is not None:
            lock.release()  # type: ignore[attr-defined]


# The text


def describe(start: Start) -> str:
    """Return the part of the section about one server."""
    with _locked(start.watched.lock):
        cluster, test_server = _cluster_of(start.watched), _test_server_of(start.watched)
        about = "" if cluster is None else f", seed {cluster.seed}"
        if cluster is None and test_server is not None and not test_server.is_on_wall_time:
            about = f", time {test_server.now_ms / 1000:.3f} s"
        lines = [f"{start.name}: {start.watched!r}{about}"]
        if cluster is not None:
            lines.append(f"  brokers: {'; '.join(_brokers(cluster))}")
        lines += _events(events_since(start))
        lines += _requests(start)
        lines += _listed("sessions", _sessions(start.watched))
        lines += _listed("znodes", _difference(start))
        return "\n".join(lines)


def _brokers(cluster: KafkaCluster) -> Iterator[str]:
    """Yield the state of each broker, with the time at which it was killed or stopped."""
    from simzk.simulation.history import format_time

    controller = cluster.controller
    ended = {
        event.who: f"{event.what} at {format_time(event.at_us).strip()}"
        for event in cluster.history
        if event.what in ("killed", "stopped", "halted", "paused", "shutting down")
    }
    for broker in cluster.brokers.values():
        last = ended.get(f"broker {broker.id}", "")
        if not broker.alive:
            state = last or "not started"
        elif broker.paused or broker.stopping:
            state = last
        else:
            state = "registered" if broker.registered else "starting"
        yield f"{broker.id} {state}{', controller' if broker.id == controller else ''}"


def events_since(start: Start) -> list[Event]:
    """Return the events of a server since the start: its history, its clients' requests, watch events, sessions."""
    from simzk.serve.request_recorder import Notice
    from simzk.simulation.history import Event

    cluster, test_server = _cluster_of(start.watched), _test_server_of(start.watched)
    found: list[Event] = [] if cluster is None else list(cluster.history)[start.events :]
    if test_server is not None:
        # A cluster's history begins at its time 0, wall time at the start of the test.
        origin_ms = start.at_ms if test_server.is_on_wall_time else 0
        if cluster is not None:
            origin_ms = cluster.now_ms - cluster.scheduler.now_us // 1000
        names = _client_names(test_server)
        for record in test_server.recorder.records(start.mark):
            at_us = (record.at_ms - origin_ms) * 1000
            who = names.get(record.session_id, "")
            if not who and cluster is not None:
                continue  # of a broker: its registration is in the history
            who = who or _session_text(record.session_id)
            if isinstance(record, Notice):
                found.append(Event(at_us, who, record.what, record.path))
            elif (shown := _shown(record)) is not None:
                found.append(Event(at_us, who, *shown))
        found.sort(key=lambda event: event.at_us)
    return found


def _shown(exchange: Exchange) -> tuple[str, str, str, str] | None:
    """Return operation, paths, nothing and result of a request; None for one that a client sends by itself."""
    from simzk.serve.request_recorder import public_form
    from simzk.zookeeper.operations import VOCABULARY

    request = public_form(exchange, None)
    if request.op in VOCABULARY.implicit_operations:
        return None
    result = "no reply" if not request.answered else request.error.__name__ if request.error is not None else "ok"
    return request.op, " ".join(request.paths), "", result


def _client_names(test_server: TestServer) -> dict[int, str]:
    """Return the names of clients by session: "client 1" is the first that the server's object made."""
    owners = test_server.session_owners()
    numbers = {client: number for number, client in enumerate(test_server.known_clients, 1)}
    return {session: f"client {numbers[client]}" for session, client in owners.items() if client in numbers}


def _session_text(session_id: int) -> str:
    """Return a session as ZooKeeper's logs show it."""
    return f"session 0x{session_id & (1 << 64) - 1:x}"


def _events(happened: Sequence[Event]) -> Iterator[str]:
    from simzk.simulation.history import format_timeline

    if not happened:
        yield "  no events since the start"
        return
    latest = happened[-EVENTS_MAX:]
    yield f"  last {len(latest)} of {len(happened)} events:" if len(latest) < len(happened) else "  events:"
    yield from (f"  {line}" for line in format_timeline(latest).splitlines())


def _requests(start: Start) -> list[str]:
    """Return the requests by client: "client 1: create 2 (1 NodeExistsError), get 1"."""
    from simzk.zookeeper.operations import OPERATION_NAMES

    test_server = _test_server_of(start.watched)
    if test_server is None:
        return []
    names = _client_names(test_server)
    counts: dict[str, Counter[str]] = {}
    failures: dict[tuple[str, str], Counter[str]] = {}
    for exchange in test_server.recorder.exchanges(start.mark):
        who = names.get(exchange.session_id) or _session_text(exchange.session_id)
        op = OPERATION_NAMES.get(type(exchange.request), "unknown")
        counts.setdefault(who, Counter())[op] += 1
        shown = _shown(exchange)
        if shown is not None and shown[-1] != "ok":
            failures.setdefault((who, op), Counter())[shown[-1]] += 1
    lines = []
    for who, ops in sorted(counts.items()):
        parts = []
        for op, count in ops.items():
            why = ", ".join(f"{number} {name}" for name, number in failures.get((who, op), Counter()).items())
            parts.append(f"{op} {count}{f' ({why})' if why else ''}")
        lines.append(f"  requests of {who}: {', '.join(parts)}")
    return lines


def _sessions(watched: Watched) -> Iterator[str]:
    """Yield the live sessions: owner, id, timeout, ephemerals, and whether nobody is connected."""
    cluster, test_server, server = _cluster_of(watched), _test_server_of(watched), watched.server
    names = {} if test_server is None else _client_names(test_server)
    if cluster is not None:
        names |= {broker.session_id: f"broker {broker.id}" for broker in cluster.brokers.values()}
    for session_id in server.sessions.ids():
        session = server.sessions.get(session_id)
        assert session is not None, "ids() lists live sessions"
        owner = names.get(session_id, "another client")
        text = f"{owner}: {_session_text(session_id)}, timeout {session.timeout_ms / 1000:g} s"
        connected = (
            server.connection_of(session_id) is not None
            if test_server is None
            else test_server.is_connected(session_id)
        )
        if not connected:
            text += ", disconnected"
        ephemerals = sorted(server.tree.ephemerals.get(session_id, ()))
        yield text + (f", ephemerals {_cut(' '.join(ephemerals))}" if ephemerals else "")


def _difference(start: Start) -> Iterator[str]:
    """Yield the znodes that were created (+), deleted (-) or changed (~) since the start, by path."""
    if start.data is None:
        return
    tree = start.watched.server.tree
    if len(tree) > 2 * ZNODES_MAX:
        yield f"{len(tree) - len(start.data):+} znodes"
        return
    now = {path: node.data for path, node in tree.in_any_order() if node.mzxid > start.zxid or path in start.data}
    gone = {path for path in start.data if tree.get(path) is None}
    for path in sorted(now.keys() | gone):
        if path in gone:
            yield f"- {path}"
        elif path not in start.data:
            yield f"+ {path}  {_data(now[path])}".rstrip()
        elif now[path] != start.data[path]:
            yield f"~ {path}  {_data(start.data[path])} -> {_data(now[path])}"


def _data(data: bytes | None) -> str:
    return "" if not data else _cut(repr(data))


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 3]}..."


def _listed(title: str, lines: Iterable[str]) -> list[str]:
    every = list(lines)
    if not every:
        return []
    more = [f"    and {len(every) - LINES_MAX} more"] if len(every) > LINES_MAX else []
    return [f"  {title}:", *(f"    {line}" for line in every[:LINES_MAX]), *more]


def replay_command(item: pytest.Item) -> str:
    """Return the command that runs one test again, with the options of the plugin that were given."""
    words = ["pytest", item.nodeid]
    for option in ("--simzk-seed", "--simzk-tcp", "--simzk-real"):
        value = item.config.getoption(option, None)
        if value is True:
            words.append(option)
        elif value not in (None, False, ""):
            words += [option, str(value)]
    return shlex.join(words)


# Pytest's hooks


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the folder of HTML pages."""
    parser.getgroup("simzk").addoption(
        "--simzk-html",
        metavar="DIR",
        help="write an HTML page of each failed test with a simzk fixture to DIR (created if missing)",
    )


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(request: pytest.FixtureRequest) -> Generator[None, object, object]:
    """Store the start of a server that a fixture returns."""
    result = yield
    if isinstance(result, watched_kinds()):
        with suppress(Exception):  # without a start there is no section; the test goes on
            note_start(request.node, request.fixturename or "", result)  # type: ignore[arg-type]
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Store the start of this test for servers that earlier tests have used."""
    for node in item.listchain():
        for start in [*node.stash.get(_STARTS, {}).values()]:
            with suppress(Exception):  # as above
                note_start(node, start.name, start.watched)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the section to the report of a test that failed in its setup or its call."""
    report = yield
    if report.failed and call.when != "teardown":
        text = section_of(item)
        if text:
            report.sections.append(("simzk", text))
    return report


def section_of(item: pytest.Item) -> str:
    """Return the section of a test; empty if no fixture of the test returned a server."""
    parts = []
    for start in starts_of(item):
        try:
            parts.append(describe(start))
        except Exception as problem:  # of any kind: the test's own failure must stay visible
            parts.append(f"{start.name}: no report: {type(problem).__name__}: {problem}")
    if not parts:
        return ""
    directory = item.config.getoption("--simzk-html", None)
    if directory:
        parts.append(_written_page(item, Path(directory)))
    return "\n".join([*parts, f"run again: {replay_command(item)}"])


def _written_page(item: pytest.Item, directory: Path) -> str:
    """Write the page of a test; return the line that says where it is."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', item.nodeid)[-150:]}.html"
        path.write_text(page_of(item.nodeid, replay_command(item), starts_of(item)), encoding="utf-8")
    except Exception as problem:  # of any kind, as above
        return f"no page: {type(problem).__name__}: {problem}"
    return f"page: {path}"


# The page


def page_of(nodeid: str, command: str, starts: Sequence[Start]) -> str:
    """Return the page of a failed test.

    Args:
        nodeid: pytest's name of the test.
        command: the command that runs it again.
        starts: the servers of the test, at least one; the page of a single cluster is that of a run.
    """
    from simzk.report.page import Section, Table, Text, to_html

    assert starts, "a page needs a server"
    (first, *others) = starts
    if hasattr(first.watched, "history") and not others:
        return _page_of_cluster(nodeid, command, first.watched)  # type: ignore[arg-type]
    sections = []
    for start in starts:
        events = [event._asdict() for event in events_since(start)]
        columns = {name: [event[name] for event in events] for name in ("who", "what", "subject", "before", "after")}
        table = Table({"at, s": [event["at_us"] / 1e6 for event in events], **columns})
        lines = [Text(line) for line in describe(start).splitlines() if not line.startswith("     ")]
        sections.append(Section(start.name, [*lines, table] if events else lines))
    return to_html(nodeid, [Text("The test failed."), Text(command, code=True)], sections)


def _page_of_cluster(nodeid: str, command: str, cluster: KafkaCluster) -> str:
    """Return the page of a run, which `simzk run --html` writes too."""
    from simzk.report.run_page import runs_page
    from simzk.scenarios.results import document_of_cluster
    from simzk.scenarios.run_tables import tables_of

    document: dict[str, object] = {
        "file": "pytest",
        "title": nodeid,
        "seed": cluster.seed,
        "kafka_version": cluster.version,
        "faults": None,
        "held": False,
        "crash": "The test failed.",
        "replay": command,
        "expectations": [],
        "violations": [],
        "rest": "the history of the cluster in the test",
        **document_of_cluster(cluster),
    }
    return runs_page([tables_of(document)])
