"""Strategies for requests to the znodes of topics: those of Kafka, and invalid ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from simzk.kafka.topic_partition import LeaderAndIsr, ReplicaAssignment
from simzk.kafka.zookeeper_mode.columnar.partition_columns import STATE_CODECS
from simzk.kafka.zookeeper_mode.columnar.topic_columns import TOPIC_CODECS
from simzk.kafka.zookeeper_mode.schemas.topic import TopicZnode
from simzk.zookeeper import requests as req
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

TOPICS_PATH = "/brokers/topics"
TOPIC_NAMES = st.sampled_from(["t", "t", "orders", "é"])
NUMBERS = st.integers(0, 5)
BROKER_LISTS = st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True)
ODD_LISTS = st.lists(st.sampled_from([-1, 0, 1, 2, 2**20, 2**31 - 1]), max_size=4)
ACLS = st.sampled_from(
    [OPEN_ACL] * 6 + [(ACL(31, Id("ip", "127.0.0.1")),), (ACL(1, Id("world", "anyone")),), (ACL(31, Id("auth", "")),)]
)
VERSIONS = st.sampled_from([-1, -1, -1, 0, 1, 2])
ODD_DATA = st.sampled_from([None, b"", b"{}", b"[]", b'{"version":1,"partitions":{}}', b"\xff"])


@st.composite
def topic_paths(draw: DrawFn) -> str:
    return f"{TOPICS_PATH}/{draw(TOPIC_NAMES)}"


@st.composite
def partition_names(draw: DrawFn) -> str:
    odd = st.sampled_from(["00", "x", "2147483648", "99999999999999999999", "７"])
    return str(draw(NUMBERS)) if draw(st.integers(0, 9)) else draw(odd)


DIRECTORIES = topic_paths().map(lambda path: f"{path}/partitions")
PARTITIONS = st.builds("{}/{}".format, DIRECTORIES, partition_names())
STATES = PARTITIONS.map(lambda path: f"{path}/state")
ODD_PATHS = st.one_of(
    st.sampled_from([TOPICS_PATH, "/brokers", "/", "/brokers/topics/t/", "/brokers/topics//", "/brokers/topicsx"]),
    topic_paths().map(lambda path: f"{path}/partition"),
    STATES.map(lambda path: f"{path}/below"),
    PARTITIONS.map(lambda path: f"{path}/states"),
)


@st.composite
def topic_texts(draw: DrawFn) -> bytes:
    """Draw the data of a topic, mostly as a Kafka release writes it."""
    numbers = draw(st.lists(NUMBERS, min_size=1, max_size=6, unique=True))
    partitions = {}
    for number in numbers:
        replicas = draw(ODD_LISTS if draw(st.integers(0, 24)) == 24 else BROKER_LISTS)
        moves = draw(st.booleans()) and draw(st.booleans())
        adding = tuple(replicas[:1]) if moves else ()
        removing = tuple(replicas[1:2]) if moves else ()
        partitions[number] = ReplicaAssignment(tuple(replicas), adding, removing)
    topic_id = draw(st.sampled_from([None, "TpQ2vLZGRz2kEHL51HUZyg", "x" * 23, "\0", "é"]))
    text = draw(st.sampled_from(TOPIC_CODECS))(TopicZnode(partitions, topic_id))
    return text if draw(st.integers(0, 9)) else text.replace(b",", b", ", 1)


@st.composite
def state_texts(draw: DrawFn) -> bytes:
    """Draw the data of a state, mostly as a Kafka release writes it."""
    isr = draw(ODD_LISTS if draw(st.integers(0, 14)) == 14 else BROKER_LISTS)
    leader = draw(st.sampled_from([-1, *isr, *isr, *isr])) if draw(st.integers(0, 19)) else draw(st.integers(-2, 9))
    state = LeaderAndIsr(
        leader, draw(st.integers(-1, 9)), tuple(isr), draw(st.integers(0, 3)), recovering=draw(st.integers(0, 9)) == 9
    )
    text = draw(st.sampled_from(STATE_CODECS))(state)
    return text if draw(st.integers(0, 9)) else text + b" "


NO_DATA: SearchStrategy[bytes | None] = st.sampled_from([None, None, b"", b"x"])
PLACES: tuple[tuple[SearchStrategy[str], SearchStrategy[bytes | None]], ...] = (
    (topic_paths(), topic_texts() | topic_texts() | ODD_DATA),
    (DIRECTORIES, NO_DATA),
    (PARTITIONS, NO_DATA),
    (STATES, state_texts() | state_texts() | state_texts() | ODD_DATA),
    (STATES, state_texts()),
    (ODD_PATHS, ODD_DATA | topic_texts()),
)
"""Kinds of paths, each with matching data."""

WRITES = ("create", "create", "create", "container", "set", "set", "set", "delete", "delete")
OTHERS = ("set acl", "get", "exists", "children", "get acl", "count", "watch", "unwatch")


@st.composite
def single_requests(draw: DrawFn, kinds: tuple[str, ...]) -> req.Request:
    """Draw one request of one of the kinds."""
    paths, data = draw(st.sampled_from(PLACES))
    path = draw(paths)
    match draw(st.sampled_from(kinds)):
        case "create":
            return req.Create2(path, draw(data), draw(ACLS), draw(st.sampled_from([0] * 6 + [1, 2])))
        case "container":
            return req.CreateContainer(path, draw(data), OPEN_ACL, 4)
        case "set":
            return req.SetData(path, draw(data), draw(VERSIONS))
        case "delete":
            return req.Delete(path, draw(VERSIONS))
        case "check":
            return req.Check(path, draw(VERSIONS))
        case "set acl":
            return req.SetACL(path, draw(ACLS), draw(VERSIONS))
        case "get":
            return req.GetData(path, draw(st.booleans()))
        case "exists":
            return req.Exists(path, draw(st.booleans()))
        case "children":
            return req.GetChildren2(path, draw(st.booleans()))
        case "get acl":
            return req.GetACL(path)
        case "count":
            return req.GetAllChildrenNumber(path)
        case "watch":
            return req.AddWatch(path, draw(st.integers(0, 1)))
    return req.RemoveWatches(path, draw(st.integers(1, 5)))


@st.composite
def kafka_writes(draw: DrawFn) -> req.Multi:
    """Draw a multi that creates a topic with some partitions, or only what belongs below an existing topic."""
    path = draw(topic_paths())
    operations: list[req.Create2] = [
        req.Create2(path, draw(topic_texts()), OPEN_ACL, 0),
        req.Create2(f"{path}/partitions", None, OPEN_ACL, 0),
    ]
    for number in draw(st.lists(NUMBERS, max_size=4, unique=True)):
        operations.append(req.Create2(f"{path}/partitions/{number}", None, OPEN_ACL, 0))
        if draw(st.booleans()):
            operations.append(req.Create2(f"{path}/partitions/{number}/state", draw(state_texts()), OPEN_ACL, 0))
    return req.Multi(tuple(operations[draw(st.integers(0, 2)) :]))


@st.composite
def removals(draw: DrawFn) -> req.Multi:
    """Draw a multi that deletes a topic with some partitions; it fails if one of them does not exist."""
    path = draw(topic_paths())
    numbers = draw(st.lists(NUMBERS, max_size=2, unique=True))
    below = [at for number in numbers for at in (f"/partitions/{number}/state", f"/partitions/{number}")]
    return req.Multi(tuple(req.Delete(f"{path}{at}", -1) for at in (*below, "/partitions", "")))


@st.composite
def multis(draw: DrawFn) -> req.Multi:
    """Draw a multi of any writes and checks."""
    operations = draw(st.lists(single_requests((*WRITES, "check")), max_size=4))
    return req.Multi(tuple(operations))  # type: ignore[arg-type]  # these kinds may stand in a multi


REQUESTS: SearchStrategy[req.Request] = st.one_of(
    single_requests(WRITES),
    single_requests(WRITES),
    single_requests(OTHERS),
    multis(),
    kafka_writes(),
    kafka_writes(),
    removals(),
)
