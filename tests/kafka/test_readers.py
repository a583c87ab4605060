"""Readers of znodes: valid and invalid texts are decoded as by each release, errors name path and reason."""

from __future__ import annotations

import contextlib
import json
import re
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.errors import SimzkError, ZnodeError
from simzk.kafka.releases.versions import VERSIONS
from simzk.kafka.zookeeper_mode.schemas import controller, scram
from simzk.kafka.zookeeper_mode.schemas.json_text import LENIENT
from simzk.kafka.zookeeper_mode.tools.reassign_partitions import read_plan
from tests.kafka.foreign_znodes import decode_registration
from tests.kafka.recorded_readers import DECODERS, KINDS, RELEASES, cases, read_by, why_not_compared
from tests.kafka.znode_codecs import READERS

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDED = [(kind, release) for kind in KINDS for release in RELEASES if cases(kind, release)]

BROKER = (
    '{"features":{"f":{"min_version":1,"max_version":3}},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
    '"endpoints":["PLAINTEXT://h:9"],"rack":"r","jmx_port":-1,"port":9,"host":"h","version":5,"timestamp":"7"}'
)
TOPIC = (
    '{"partitions":{"0":[1,2]},"topic_id":"AAAAAAAAQACAAAAAAAAAAA","adding_replicas":{"0":[2]},'
    '"removing_replicas":{},"version":3}'
)
STATE = '{"controller_epoch":1,"leader":1,"version":1,"leader_recovery_state":1,"leader_epoch":0,"isr":[1]}'
TOKEN = (
    '{"issueTimestamp":1,"renewers":[],"tokenRequester":"User%3Ac","tokenId":"i","owner":"User%3Aa",'
    '"expiryTimestamp":2,"maxTimestamp":3,"version":3}'
)
MIGRATION = (
    '{"version":0,"kraft_metadata_offset":4,"kraft_controller_id":1,"kraft_metadata_epoch":3,'
    '"kraft_controller_epoch":2}'
)
ACLS = '{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"}]}'
FORMS: dict[str, tuple[str, str]] = {
    "/brokers/ids/1": (BROKER, "features listener_security_protocol_map endpoints rack version"),
    "/brokers/topics/t": (TOPIC, "partitions topic_id adding_replicas removing_replicas"),
    "/brokers/topics/t/partitions/0/state": (STATE, "controller_epoch leader leader_recovery_state leader_epoch isr"),
    "/controller": ('{"version":2,"brokerid":1,"timestamp":"5","kraftControllerEpoch":-1}', "brokerid"),
    "/config/changes/config_change_1": ('{"version":2,"entity_path":"topics/t"}', "version entity_path"),
    "/config/topics/t": ('{"version":1,"config":{"retention.ms":"1"}}', ""),
    "/admin/reassign_partitions": (
        '{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[1,2]}]}',
        "version partitions",
    ),
    "/admin/preferred_replica_election": ('{"version":1,"partitions":[{"topic":"t","partition":1}]}', "partitions"),
    "/isr_change_notification/isr_change_1": ('{"version":1,"partitions":[{"topic":"t","partition":1}]}', "partitions"),
    "/log_dir_event_notification/log_dir_event_1": ('{"version":1,"broker":3,"event":1}', "broker"),
    "/cluster/id": ('{"version":"1","id":"abc"}', "id"),
    "/feature": (
        '{"features":{"f":{"min_version_level":1,"max_version_level":3}},"version":1,"status":1}',
        "features version status",
    ),
    "/migration": (
        MIGRATION,
        "version kraft_metadata_offset kraft_controller_id kraft_metadata_epoch kraft_controller_epoch",
    ),
    "/latest_producer_id_block": (
        '{"version":1,"broker":3,"block_start":"0","block_end":"999"}',
        "broker block_start block_end",
    ),
    "/delegation_token/tokens/i": (
        TOKEN,
        "issueTimestamp renewers tokenRequester tokenId owner expiryTimestamp maxTimestamp version",
    ),
    "/kafka-acl/Topic/t": (ACLS, "version acls"),
    "/kafka-acl-extended-changes/acl_changes_1": (
        '{"version":1,"resourceType":"Topic","name":"pre","patternType":"PREFIXED"}',
        "version resourceType name patternType",
    ),
    "/consumers/g/ids/c": (
        '{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"7"}',
        "subscription pattern",
    ),
}
"""A valid text of each znode that is JSON, and the fields that its reader looks at."""
BARE = {
    "/controller_epoch": "5",
    "/consumers/g/offsets/t/0": "17",
    "/kafka-acl-changes/acl_changes_1": "Topic:t1",
}
"""Valid texts of those that are none."""
STRICT = ("/admin/reassign_partitions", "/kafka-acl-extended-changes/acl_changes_1")
"""Whose readers refuse what they do not know (§1.1)."""
IMPOSSIBLE = '[[{"impossible":1.5}]]'


def _refusal(read: Callable[[], object]) -> ZnodeError | None:
    """Return the error of a reader; None: the text was decoded."""
    try:
        read()
    except ZnodeError as error:
        return error
    return None


def reader_of(path: str) -> Callable[[str, bytes], object]:
    (reader,) = (reader for pattern, reader in READERS if re.fullmatch(pattern, path))
    return reader


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize(("kind", "release"), RECORDED)
def test_a_text_is_decoded_as_by_the_release(kind: str, release: str) -> None:
    recorded = cases(kind, release)
    other = [
        (case.text, f"real: {case.outcome}", f"ours: {found}")
        for case in recorded
        if (found := read_by(kind, release, case.text)) != case.outcome
    ]
    assert [case for case in other if why_not_compared(kind, release, case[0]) is None] == []
    assert len(other) < 0.15 * len(recorded)


def test_every_znode_that_is_json_has_its_form_here() -> None:
    matched = {pattern for path in (*FORMS, *BARE) for pattern, _ in READERS if re.fullmatch(pattern, path)}
    assert {pattern for pattern, _ in READERS} - matched == {r"/consumers/[^/]+/owners/[^/]+/\d+"}


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("path", FORMS)
def test_errors_name_path_and_field(path: str) -> None:
    text, looked_at = FORMS[path]
    read = reader_of(path)
    read(path, text.encode())
    refused = []
    for field, value in json.loads(text).items():
        key = json.dumps(field)
        old = json.dumps(value, separators=(",", ":"))
        wrong = text.replace(f"{key}:{old}", f"{key}:{IMPOSSIBLE}")
        assert wrong != text
        error = _refusal(partial(read, path, wrong.encode()))
        if error is not None:
            assert error.where == path
            assert field in error.what
            assert error.right
            refused.append(field)
    assert sorted(refused) == sorted(looked_at.split())


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("path", FORMS)
def test_unknown_fields_are_ignored_as_by_kafka(path: str) -> None:
    text, _ = FORMS[path]
    read = reader_of(path)
    more = f'{text[:-1]},"of another release":{IMPOSSIBLE}}}'.encode()
    if path in STRICT:
        with pytest.raises(ZnodeError, match="of another release"):
            read(path, more)
    else:
        assert read(path, more) == read(path, text.encode())


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([2**31, -(2**31) - 1, 2**63, 10**400, 0, -1]),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["²", "--5", "٣", "1_0", " 5", "-0", "9" * 5000, "\ud800", "𝟙", "t.t", "/", ""]),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4) | st.just("0"), inner, max_size=4),
    max_leaves=8,
)


def _spots(value: object, spot: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [spot, *(found for key, item in items for found in _spots(item, (*spot, key)))]


def _with(value: object, spot: tuple[str | int, ...], new: object) -> object:
    if not spot:
        return new
    key, *rest = spot
    if isinstance(value, dict):
        return {name: _with(item, tuple(rest), new) if name == key else item for name, item in value.items()}
    assert isinstance(value, list)
    return [_with(item, tuple(rest), new) if index == key else item for index, item in enumerate(value)]


@st.composite
def mistakes(draw: st.DrawFn, text: str) -> bytes:
    """Generate texts with one change."""
    data = text.encode()
    match draw(st.sampled_from(["value", "doubled", "cut", "bytes", "around", "encoding", "deep", "anything"])):
        case "value" if text[:1] == "{":
            document = json.loads(text)
            changed = _with(document, draw(st.sampled_from(_spots(document))), draw(VALUES))
            return json.dumps(changed, ensure_ascii=draw(st.booleans())).encode(errors="surrogatepass")
        case "doubled":
            field = draw(st.sampled_from(sorted(json.loads(text)))) if text[:1] == "{" else "a"
            return data[:-1] + f",{json.dumps(field)}:{json.dumps(draw(VALUES))}}}".encode()
        case "cut":
            begin = draw(st.integers(0, len(data)))
            return data[:begin] + data[draw(st.integers(begin, len(data))) :]
        case "bytes":
            at = draw(st.integers(0, len(data)))
            return data[:at] + draw(st.binary(max_size=4)) + data[at:]
        case "around":
            return draw(st.binary(max_size=4)) + data + draw(st.binary(max_size=4))
        case "encoding":
            return text.encode(draw(st.sampled_from(["utf-16", "utf-16-le", "utf-32-be", "utf-8-sig"])))
        case "deep":
            deep = "[" * 3000 + "]" * 3000
            return draw(st.sampled_from([deep, f'{text[:-1]},"a":{deep}}}', '{"a":' * 3000])).encode()
    return draw(st.binary(max_size=20) | VALUES.map(lambda value: json.dumps(value).encode()))


def _read_or_refused(path: str, read: Callable[[], object]) -> None:
    error = _refusal(read)
    if error is not None:
        assert error.where.startswith(path)
        assert error.what
        assert error.right
        assert len(str(error)) < 1000


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("path", [*FORMS, *BARE])
@given(data=st.data())
def test_any_data_are_decoded_or_rejected(path: str, data: st.DataObject) -> None:
    text = FORMS[path][0] if path in FORMS else BARE[path]
    written = data.draw(mistakes(text))
    _read_or_refused(path, lambda: reader_of(path)(path, written))
    if path == "/controller":
        _read_or_refused(path, lambda: decode_registration(path, written))


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("kind", sorted(DECODERS))
@given(data=st.data())
def test_any_data_are_decoded_or_rejected_by_any_release(kind: str, data: st.DataObject) -> None:
    valid = (cases(kind, RELEASES[-1])[0].text or b"").decode()
    version = VERSIONS[data.draw(st.sampled_from(sorted(VERSIONS)))]
    written = data.draw(mistakes(valid))
    _read_or_refused("/z", lambda: DECODERS[kind](written, version.reading))
    _read_or_refused("/z", lambda: DECODERS[kind](None, version.reading))


@given(data=st.data())
def test_credentials_and_plans_are_decoded_or_rejected(data: st.DataObject) -> None:
    value = data.draw(mistakes("salt=cw==,stored_key=YQ==,server_key=Yg==,iterations=4096")).decode(errors="replace")
    _read_or_refused("/u", lambda: scram.decode("/u", "SCRAM-SHA-256", value))
    plan = data.draw(mistakes(FORMS["/admin/reassign_partitions"][0])).decode(errors="replace")
    with contextlib.suppress(SimzkError):
        read_plan(plan, VERSIONS[data.draw(st.sampled_from(sorted(VERSIONS)))])


def test_the_lenient_reading_accepts_a_bare_controller_id() -> None:
    assert controller.decode("/controller", b"3", LENIENT) == 3
