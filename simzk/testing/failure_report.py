"""Section "simzk" in pytest's report of a failed test: events, requests, sessions and znodes of the test's servers.

Rules of this module:
  - pytest loads it in every run, so importing it imports nothing but pytest and two small modules; servers are
    recognized only after something else has imported them. Its asserts are not rewritten (PYTEST_DONT_REWRITE), which
    pytest would warn of where a test runs pytest;
  - a server belongs to a test if a fixture of the test returned or made it, whoever wrote the fixture, or if the test
    made it: in its body, or in `setUp` of a `unittest.TestCase`;
  - "since the start" counts from the creation of the server, or from the start of the test if the server is older;
  - a server that is closed while the test fails, as by `with simzk.ZooKeeper() as zookeeper:`, is described as it was
    before it was closed;
  - a failure of the report becomes one line of the report, and the test's own failure stays.
"""

from __future__ import annotations

import re
import shlex
import sys
import weakref
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pytest

from simzk.errors import SimzkError, nearest
from simzk.lifecycle import observe
from simzk.printable import printable_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence

    from _pytest.nodes import Node

    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.report.run_page import RunTables
    from simzk.scenarios.znode_log import ZnodeLog
    from simzk.serve.request_recorder import Exchange, RecordedNotice
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
LINE_MAX = 400
"""Length to which data of a znode is cut."""
LOCK_TIMEOUT_S = 5.0
"""Time to wait for the lock of a server: a test that failed by a timeout may still hold it."""
OWN_MAX = 4
"""Number of servers that a test made itself that are stored, the latest ones: a property may make hundreds."""


# What is known about a test's servers


class Start(NamedTuple):
    """State of a server when the test began.

    Args:
        name: the name in the section: of the fixture, or of the class if the test made it.
        watched: the server or cluster.
        zxid: the last zxid.
        data: the data by path; None for a tree that is too large.
        mark: place in the recorded requests; None if none was recorded.
        events: number of events in a cluster's history.
        at_ms: the server's time.
        changes: the changes of znodes since then; None if no pages are written, or the tree is too large.
    """

    name: str
    watched: Watched
    zxid: int
    data: dict[str, bytes | None] | None
    mark: RecordedNotice | None
    events: int
    at_ms: int
    changes: ZnodeLog | None


TEST = "the test"
"""Who advances time, adds rules of faults and restarts servers."""
_ROOTS = ("/admin", "/brokers", "/cluster", "/config", "/consumers", "/controller", "/controller_epoch", "/feature")
_OF_EVERY_BOOT = (
    "/admin/delete_topics/",
    "/brokers/ids/",
    "/brokers/seqid/",
    "/brokers/topics/",
    "/cluster/",
    "/config/",
    "/isr_change_notification/",
    "/kafka-acl",
    "/latest_producer_id_block/",
    "/log_dir_event_notification/",
    "/zookeeper/",
)
"""Znodes of every cluster, and what they begin with."""
_STARTS = pytest.StashKey[dict[str, Start]]()


class TestObserver:
    """Observer of the servers that are made and closed during one test.

    Args:
        item: the test.
        pages: whether pages of failed tests are written.

    Attributes:
        pages: whether pages of failed tests are written.
        fixture: the fixture that is set up at present, with its node; None in the test itself.
    """

    __test__ = False  # pytest: this is no test class

    def __init__(self, item: pytest.Item, *, pages: bool) -> None:
        self._item = item
        self.pages = pages
        self._own: list[tuple[weakref.ref[object], Start]] = []  # a test may check that its server is freed
        self._closed: weakref.WeakSet[object] = weakref.WeakSet()
        # Of servers that were closed while the test failed: themselves, so that their ids stay theirs, text and page.
        self._endings: dict[int, tuple[object, str, RunTables | None]] = {}
        self.fixture: tuple[Node, str] | None = None

    def made(self, watched: object) -> None:
        """Store the start of a new server."""
        with suppress(Exception):  # without a start there is no section; the test goes on
            if self.fixture is not None:
                node, name = self.fixture
                note_start(node, name, watched, pages=self.pages)  # type: ignore[arg-type]  # a server
                return
            name = getattr(watched, "report_name", type(watched).__name__)
            start = start_of(name, watched, pages=self.pages)  # type: ignore[arg-type]  # as above
            own = (weakref.ref(watched), start._replace(watched=None))  # type: ignore[arg-type]  # see `starts`
            self._own = [*self._own[1 - OWN_MAX :], own]

    def closing(self, watched: object) -> None:
        """Describe a server that is closed while the test fails."""
        starts = [start for start in self.starts() if start.watched is watched]
        if watched in self._closed or not starts:
            return
        self._closed.add(watched)
        if sys.exc_info()[0] is None and not getattr(self._item, "_excinfo", None):  # the latter of unittest
            return
        for start in starts:
            with suppress(Exception):  # as above
                page = tables_of_start(start) if self.pages else None
                self._endings[id(watched)] = watched, describe(start), page

    def starts(self) -> list[Start]:
        """Return the servers of the test, clusters first; a cluster's own ZooKeeper is part of the cluster."""
        # Fixtures that others request by name while they run are only in the private dictionary of the request.
        requested: Collection[str] = getattr(getattr(self._item, "_request", None), "_fixture_defs", ())
        names = {*getattr(self._item, "fixturenames", ()), *requested}
        of_nodes = [node.stash.get(_STARTS, {}) for node in self._item.listchain()]
        found = [start for starts in of_nodes for name, start in starts.items() if name in names]
        for own, start in self._own:
            if (watched := own()) is not None:
                found.append(start._replace(watched=watched))  # type: ignore[arg-type]  # as above
        found.sort(key=lambda start: _cluster_of(start.watched) is None)
        # Two fixtures may return one object.
        return list({id(start.watched.server): start for start in reversed(found)}.values())[::-1]

    def reported(self) -> list[Start]:
        """Return the servers that the section describes: without those that the test closed before it failed."""
        starts = self.starts()
        return [one for one in starts if one.watched not in self._closed or id(one.watched) in self._endings] or starts

    def text_of(self, start: Start) -> str:
        """Return the part of the section about one server, from before it was closed if it is."""
        ending = self._endings.get(id(start.watched))
        return describe(start) if ending is None else ending[1]

    def page_of(self, start: Start) -> RunTables:
        """Return the part of the page about one server, as `text_of`."""
        _, _, page = self._endings.get(id(start.watched), (None, "", None))
        return page or tables_of_start(start)


_OBSERVER = pytest.StashKey[TestObserver]()


def watched_kinds() -> tuple[type, ...]:
    """Return the classes of servers and clusters that were imported."""
    found = (("simzk.serve.verbs", "TestServer"), ("simzk.kafka.cluster.cluster", "KafkaCluster"))
    return tuple(getattr(sys.modules[module], name) for module, name in found if module in sys.modules)


def note_start(node: Node, name: str, watched: Watched, *, pages: bool) -> None:
    """Store the present state of a server as the start of the tests of `node`."""
    starts = node.stash.setdefault(_STARTS, {})
    before = starts.pop(name, None)
    if before is not None and before.changes is not None:
        before.changes.close()
    starts[name] = start_of(name, watched, pages=pages)


def start_of(name: str, watched: Watched, *, pages: bool) -> Start:
    """Return the present state of a server; log its changes of znodes from now on if pages are written."""
    cluster = _cluster_of(watched)
    server = watched.server
    with _locked(watched.lock):
        small = len(server.tree) <= ZNODES_MAX
        test_server = _test_server_of(watched)
        return Start(
            name,
            watched,
            server.zxid,
            {path: one.data for path, one in server.tree.in_any_order()} if small else None,
            None if test_server is None else test_server.recorder.mark(),
            0 if cluster is None else len(cluster.history),
            watched.now_ms,
            _log_changes(watched) if pages and small else None,
        )


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
        if event.what in ("killed", "stopped", "halted", "power lost", "paused", "shutting down")
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
    cluster = _cluster_of(start.watched)
    found: list[Event] = [] if cluster is None else list(cluster.history)[start.events :]
    found += (event for event, _, _ in _recorded(start))
    if cluster is not None:
        found.sort(key=lambda event: event.at_us)
    return found


def _recorded(start: Start) -> list[tuple[Event, int, bool]]:
    """Return what was recorded since the start: each event, the last zxid at that time, and whether it may write."""
    from simzk.serve.request_recorder import RecordedNotice
    from simzk.simulation.history import Event

    cluster, test_server = _cluster_of(start.watched), _test_server_of(start.watched)
    found: list[tuple[Event, int, bool]] = []
    if test_server is None:
        return found
    # A cluster's history begins at its time 0, wall time at the start of the test.
    origin_ms = start.at_ms if test_server.is_on_wall_time else 0
    if cluster is not None:
        origin_ms = cluster.now_ms - cluster.scheduler.now_us // 1000
    names = _client_names(test_server)
    zxid = start.zxid
    for record in test_server.recorder.records(start.mark):
        at_us = (record.at_ms - origin_ms) * 1000
        who = names.get(record.session_id, "") if record.session_id else TEST
        if not who and cluster is not None:
            continue  # of a broker: its registration is in the history
        who = who or _session_text(record.session_id)
        if isinstance(record, RecordedNotice):
            is_transaction = record.what.startswith("session ")
            zxid += is_transaction
            found.append((Event(at_us, who, record.what, record.path), zxid, is_transaction))
        elif (shown := _shown(record)) is not None:
            is_write = record.zxid > zxid
            zxid = max(zxid, record.zxid)
            found.append((Event(at_us, who, *shown), zxid, is_write))
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
    counts = Counter[tuple[str, str]]()
    failures: dict[tuple[str, str], Counter[str]] = {}
    for exchange in test_server.recorder.exchanges(start.mark):
        who = names.get(exchange.session_id) or _session_text(exchange.session_id)
        op = OPERATION_NAMES.get(type(exchange.request), "unknown")
        counts[who, op] += 1
        shown = _shown(exchange)
        if shown is not None and shown[-1] != "ok":
            failures.setdefault((who, op), Counter())[shown[-1]] += 1
    by_client: dict[str, list[str]] = {}
    for (who, op), count in counts.items():
        why = ", ".join(f"{number} {name}" for name, number in failures.get((who, op), Counter()).items())
        by_client.setdefault(who, []).append(f"{op} {count}{f' ({why})' if why else ''}")
    return [f"  requests of {who}: {', '.join(parts)}" for who, parts in sorted(by_client.items())]


def _sessions(watched: Watched) -> Iterator[str]:
    """Yield the live sessions: owner, id, timeout, ephemerals, and whether nobody is connected."""
    cluster, test_server, server = _cluster_of(watched), _test_server_of(watched), watched.server
    names = {} if test_server is None else _client_names(test_server)
    if test_server is not None:
        for number in range(1, len(list(test_server.known_clients)) + 1):
            if f"client {number}" not in names.values():
                yield f"client {number}: no session; it was not started, was stopped, or its session expired"
    if cluster is not None:
        names |= {broker.session_id: f"broker {broker.id}" for broker in cluster.brokers.values()}
    for session_id in server.sessions.ids():
        session = server.sessions.get(session_id)
        assert session is not None, "ids() lists live sessions"
        owner = f"{names[session_id]}: " if session_id in names else ""
        text = f"{owner}{_session_text(session_id)}, timeout {session.timeout_ms / 1000:g} s"
        if test_server is None:
            connected = server.connection_of(session_id) is not None
        else:
            connected = test_server.is_connected(session_id)
        text += "" if connected else ", disconnected"
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
    for path in sorted(now.keys() | gone, key=lambda path: (_is_of_every_boot(path), path)):
        if path in gone:
            yield f"- {path}"
        elif path not in start.data:
            yield f"+ {path}  {_data(now[path])}".rstrip()
        elif now[path] != start.data[path]:
            yield f"~ {path}  {_data(start.data[path])} -> {_data(now[path])}"


def _is_of_every_boot(path: str) -> bool:
    """Return whether every cluster has the znode, so that it tells nothing of the test."""
    return path in _ROOTS or (f"{path}/".startswith(_OF_EVERY_BOOT) and "/topics/" not in path)


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
    """Store the start of a server that a fixture makes or returns."""
    __tracebackhide__ = True  # of an error of the fixture
    name = request.fixturename or ""
    observer = _current[-1] if _current else None
    around = None if observer is None else observer.fixture
    if observer is not None:
        observer.fixture = (request.node, name)
    try:
        result = yield
    finally:
        if observer is not None:
            observer.fixture = around
    if isinstance(result, watched_kinds()):
        with suppress(Exception):  # without a start there is no section; the test goes on
            pages = observer is not None and observer.pages
            note_start(request.node, name, result, pages=pages)  # type: ignore[arg-type]
    return result


_current: list[TestObserver] = []
"""Observers of the tests that run at present: more than one where a test runs pytest."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Observe the servers that are made during a test; forget those of the test after it."""
    observer = TestObserver(item, pages=bool(item.config.getoption("--simzk-html", None)))
    item.stash[_OBSERVER] = observer
    _current.append(observer)
    before = observe(observer)
    try:
        return (yield)
    finally:
        observe(before)
        ended = _current.pop()
        assert ended is observer, "tests end in the reverse order of their beginning"
        del item.stash[_OBSERVER]
        if _STARTS in item.stash:
            del item.stash[_STARTS]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Store the start of this test for servers that earlier tests have used."""
    for node in item.listchain():
        for start in [*node.stash.get(_STARTS, {}).values()]:
            with suppress(Exception):  # as above
                note_start(node, start.name, start.watched, pages=start.changes is not None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the section to the report of a test that failed in its setup or its call."""
    if call.excinfo is not None:
        _hide_frames(call.excinfo)
    report = yield
    if report.failed and call.when != "teardown" and (text := section_of(item, _why(report))):
        if call.excinfo is not None and (near := _nearest_name(call.excinfo.value)):
            text = f"did you mean {near}?\n{text}"
        report.sections.append(("simzk", "\n".join(map(_short, printable_lines(text).split("\n")))))
    return report


def _nearest_name(error: BaseException) -> str:
    """Return the attribute that a test has misspelt of one of simzk's objects; empty if there is none."""
    if not isinstance(error, AttributeError) or not type(error.obj).__module__.startswith("simzk"):
        return ""
    return nearest(error.name or "", [name for name in dir(error.obj) if not name.startswith("_")])


def _hide_frames(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Hide simzk's frames of an error of the test: one raised in a callback, or that simzk raises for users.

    Frames of other errors, which may be simzk's own mistakes, stay; and so do all with `--full-trace`.
    """
    modules = [entry.frame.f_globals for entry in excinfo.traceback]
    for values in modules:
        if str(values.get("__name__", "")).startswith("simzk."):
            values.setdefault("__tracebackhide__", _is_hidden)


def _is_hidden(excinfo: pytest.ExceptionInfo[BaseException]) -> bool:
    """Return whether simzk's frames of an error are hidden: pytest calls it for each of them."""
    last = excinfo.traceback[-1].frame.f_globals
    is_own = str(last.get("__name__", "")).startswith("simzk.")
    is_for_users = isinstance(excinfo.value, SimzkError | TimeoutError) or type(excinfo.value) is RuntimeError
    return not is_own or is_for_users


def _short(line: str) -> str:
    """Return the beginning of a line that a client has made too long to read."""
    return line if len(line) <= LINE_MAX else f"{line[:LINE_MAX]}... ({len(line):,} characters)"


def section_of(item: pytest.Item, why: str) -> str:
    """Return the section of a test; empty if the test has no server.

    Args:
        item: the test.
        why: the message of its failure.
    """
    observer = item.stash[_OBSERVER]
    parts = []
    for start in observer.reported():
        try:
            parts.append(observer.text_of(start))
        except Exception as problem:  # of any kind: the test's own failure must stay visible
            parts.append(f"{start.name}: no report: {type(problem).__name__}: {problem}")
    if not parts:
        return ""
    directory = item.config.getoption("--simzk-html", None)
    if directory:
        parts.append(_written_page(item, observer, Path(directory), why))
    return "\n".join([*parts, f"run again: {replay_command(item)}"])


def _written_page(item: pytest.Item, observer: TestObserver, directory: Path, why: str) -> str:
    """Write the page of a test; return the line that says where it is."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', item.nodeid)[-150:]}.html"
        parts = [observer.page_of(start) for start in observer.reported()]
        path.write_text(page_of(item.nodeid, replay_command(item), parts, why), encoding="utf-8")
    except Exception as problem:  # of any kind, as above
        return f"no page: {type(problem).__name__}: {problem}"
    return f"page: {path}"


# The page


def _log_changes(watched: Watched) -> ZnodeLog:
    from simzk.scenarios.znode_log import ZnodeLog

    server, cluster = watched.server, _cluster_of(watched)
    if cluster is None:  # its virtual time may stand still: the last zxid is the order of changes
        return ZnodeLog(server, lambda: server.zxid)
    scheduler = cluster.scheduler
    return ZnodeLog(server, lambda: scheduler.now_us)


def _why(report: pytest.TestReport) -> str:
    """Return the message of a failure."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message) if crash is not None else str(report.longrepr or "")


def page_of(nodeid: str, command: str, parts: Sequence[RunTables], why: str) -> str:
    """Return the page of a failed test, of the same form as that of a run.

    Args:
        nodeid: the test.
        command: runs the test again.
        parts: what happened to each server.
        why: the message of the failure.
    """
    from dataclasses import replace

    from simzk.report.run_page import runs_page

    assert parts, "a page needs a server"
    said = why.partition("\n")[0][:LINE_MAX]
    return runs_page(
        [
            replace(
                one,
                title=nodeid if len(parts) == 1 else one.title,
                replay=command,
                outcome=one.outcome.replace("The test failed.", f"The test failed: {said}.") if said else one.outcome,
            )
            for one in parts
        ]
    )


def tables_of_start(start: Start) -> RunTables:
    """Return what happened to a server since the start, as the tables of a page."""
    with _locked(start.watched.lock):
        cluster = _cluster_of(start.watched)
        return _tables_of_server(start) if cluster is None else _tables_of_cluster(start, cluster)


def _summary(start: Start) -> str:
    """Return requests and sessions as paragraphs, which the tables do not show."""
    return "\n\n".join(line.strip() for line in (*_requests(start), *_sessions(start.watched)))


_STEPS_OF_BROKERS = {
    "killed": "kill",
    "shutting down": "shut down",
    "paused": "pause",
    "started": "start",
    "session expired by hand": "expire the session of",
}
_STEPS_OF_TOPICS = {
    "topic created": "create topic",
    "deletion requested": "delete topic",
    "reassignment": "reassign",
}
"""Events of a cluster's history that a test causes, with the name of the step."""


def _with_steps(cluster: KafkaCluster, since: int) -> Iterator[Event]:
    """Yield the history with a step of the operator before each event, from `since` on, that a test has caused."""
    from simzk.simulation.history import Event

    for place, event in enumerate(cluster.history):
        if place >= since and event.what in _STEPS_OF_BROKERS and event.who.startswith("broker "):
            yield Event(event.at_us, "operator", f"{_STEPS_OF_BROKERS[event.what]} {event.who}", "", "", event.after)
        elif place >= since and event.what in _STEPS_OF_TOPICS:
            yield Event(event.at_us, "operator", f"{_STEPS_OF_TOPICS[event.what]} {event.subject}")
        yield event


def _tables_of_cluster(start: Start, cluster: KafkaCluster) -> RunTables:
    from simzk.scenarios.results import document_of_cluster
    from simzk.scenarios.run_tables import tables_of

    of_clients = [event for event in events_since(start) if event.who.startswith(("client ", "session ", TEST))]
    events = sorted([*_with_steps(cluster, start.events), *of_clients], key=lambda event: event.at_us)
    document: dict[str, object] = {
        "file": "pytest",
        "title": start.name,
        "why": _summary(start),
        "seed": cluster.seed,
        "kafka_version": cluster.version,
        "faults": None,
        "held": False,
        "crash": f"The test failed. Brokers: {'; '.join(_brokers(cluster))}.",
        "replay": "",
        "expectations": [],
        "violations": [],
        "rest": "the history of the cluster in the test",
        **document_of_cluster(cluster),
        "timeline": [event._asdict() for event in events],
        "end_us": cluster.scheduler.now_us,
    }
    return tables_of(document, None if start.changes is None else start.changes.to_json())


_SPACING_S = 0.001
"""Distance on the page between two events of the same virtual time."""


def _tables_of_server(start: Start) -> RunTables:
    """Return the tables of a ZooKeeper: a lane for each client, requests as steps, failed ones as failures."""
    from simzk.report.run_page import RunTables
    from simzk.simulation.history import Event

    server = start.watched
    recorded = _recorded(start)
    events = [event for event, _, _ in recorded]
    times_s: list[float] = []
    for event in events:
        times_s.append(max(event.at_us / 1e6, times_s[-1] + _SPACING_S if times_s else 0.0))
    end_s = (times_s[-1] if times_s else 0.0) + _SPACING_S
    marks = [
        (at_s, "failed" if _has_failed(event, events[at + 1 :]) else "step", " ".join(filter(None, event[1:])))
        for at, (at_s, event) in enumerate(zip(times_s, events, strict=True))
        if not event.what.startswith(("watch event", "session "))
    ]
    changes, at_start = _timed_changes(start, recorded, times_s)
    return RunTables(
        title=start.name,
        heading=f"{server!r}. Events of the same virtual time are {_SPACING_S * 1000:g} ms apart on this page.",
        held=False,
        outcome="The test failed.",
        replay="",
        expectations={},
        violations={},
        brokers=_client_spans(events, times_s, end_s),
        leaders={},
        in_sync={},
        marks={name: [mark[at] for mark in marks] for at, name in enumerate(("at_s", "kind", "label"))},
        events={
            "at, s": times_s,
            **{name: [getattr(event, name) for event in events] for name in Event._fields[1:]},
            "kind": ["session" if event.what.startswith("session ") else "metadata" for event in events],
        },
        end_s=end_s,
        why=_summary(start),
        rest="zookeeper.requests() in the test",
        lanes=("Clients", "their sessions"),
        znodes_at_start=at_start,
        znode_changes=changes,
    )


def _has_failed(event: Event, later: Sequence[Event]) -> bool:
    """Return whether a request was refused.

    A znode that does not exist is a result of `exists`, and one without a parent is created later (`makepath`).
    """
    if event.after in ("", "ok") or (event.what, event.after) == ("exists", "NoNodeError"):
        return False
    again = event._replace(after="ok")[1:]
    return (event.what, event.after) != ("create", "NoNodeError") or all(one[1:] != again for one in later)


def _client_spans(events: Sequence[Event], times_s: Sequence[float], end_s: float) -> dict[str, list[object]]:
    """Return when each client had a session; one that expired is dead."""
    begun: dict[str, tuple[float, str]] = {}
    spans: list[tuple[object, ...]] = []

    def end(who: str, at_s: float) -> None:
        since_s, state = begun.pop(who, (0.0, "up"))
        if at_s > since_s:
            spans.append((who, since_s, at_s, state, f"{who}: session {'open' if state == 'up' else 'expired'}", ""))

    for at_s, event in zip(times_s, events, strict=True):
        if event.who == TEST:
            continue
        state = {"session opened": "up", "session expired": "dead", "session closed": ""}.get(event.what)
        if state is None:
            begun.setdefault(event.who, (0.0, "up"))
            continue
        if event.who in begun or state != "up":
            end(event.who, at_s)
        if state:
            begun[event.who] = (at_s, state)
    for who in list(begun):
        end(who, end_s)
    names = ("row", "from_s", "until_s", "state", "label", "text")
    return {name: [span[at] for span in spans] for at, name in enumerate(names)}


def _timed_changes(
    start: Start, recorded: Sequence[tuple[Event, int, bool]], times_s: Sequence[float]
) -> tuple[dict[str, list[object]], dict[str, str]]:
    """Return the changes of znodes at the times of the requests that caused them, and the znodes at the start."""
    if start.changes is None:
        return {}, {}
    logged: Any = start.changes.to_json()
    writes = [(zxid, at_s) for (_, zxid, is_write), at_s in zip(recorded, times_s, strict=True) if is_write]
    rows = []
    for change in logged["changes"]:
        # The clock of the log is the zxid. What no recorded request wrote has the time of the next one.
        at_s = next((at_s for zxid, at_s in writes if zxid >= change["at_us"]), times_s[-1] if times_s else 0.0)
        rows.append((at_s, change["path"], change["data"]))
    rows.sort(key=lambda row: row[0])
    return {name: [row[at] for row in rows] for at, name in enumerate(("at, s", "path", "data"))}, logged["at_start"]
