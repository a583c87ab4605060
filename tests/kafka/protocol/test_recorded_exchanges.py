"""Exchanges of real brokers, Kafka 0.8.2 to 3.9: every recorded request and answer, encoded and decoded.

A recording has each field of each message and the size of the answer's frame, but not its bytes. So each answer is
encoded, has the recorded size, and decodes to the recorded fields. `data/exchanges.jsonl.gz` has up to two exchanges of
each API, version and kind of answer; all of them are compared by

    SIMZK_ORACLE_WIRE=FOLDER pytest tests/kafka/protocol/test_recorded_exchanges.py

with the folder that has one folder of recordings per release. `python -m tests.kafka.protocol.test_recorded_exchanges
FOLDER` selects the share anew.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from simzk.kafka.protocol.classes import message_class
from simzk.kafka.protocol.codec import (
    decode_request,
    decode_response,
    encode,
    encode_request,
    encode_response,
    response_header_version,
)
from simzk.kafka.protocol.structs import ProtocolError, UnsupportedVersionError
from tests.kafka.protocol.plain import from_plain, to_plain
from tests.kafka.recorded_lines import read_lines

SHARE = Path(__file__).with_name("data") / "exchanges.jsonl.gz"
RECORDINGS = os.environ.get("SIMZK_ORACLE_WIRE", "")
PER_KIND = 2
HIDDEN_PATH, HIDDEN = "/kafka/b", 20
"""Log directories in recordings are shorter than they were: by this, and by the name of the release."""

# Frames that no broker could decode, whatever its release; the broker closed the connection.
UNDECODABLE = {
    "unknown api key 999", "negative api key", "Metadata, version 99", "Metadata, version -1", "header cut short",
    "body cut short", "array length -5", "array length huge",
}  # fmt: skip
DECODABLE = {"bytes after the body", "client id null"}
ANSWERED_BY_OLD_RELEASES = {"Metadata, version 99", "Metadata, version -1"}
"""Before 0.10 a broker decodes a version that it does not know as one that it knows."""
ANSWERED_IN_ANOTHER_VERSION = "fetch: as broker 9"
"""0.9.0.1 answers a Fetch v1 of an unknown replica in version 0."""


def recordings() -> list[Path]:
    """Return the share of the clone, or all recordings of SIMZK_ORACLE_WIRE."""
    return sorted(Path(RECORDINGS).glob("*/s*.jsonl*")) if RECORDINGS else [SHARE]


def unread(value: Any) -> Any:
    """Return a recorded value with bytes where the recording has hexadecimal text; long records are cut there."""
    if isinstance(value, list):
        return [unread(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "hex" in value:
        data = bytes.fromhex(value["hex"].removesuffix("..."))
        return data.ljust(value.get("size", len(data)), b"\0")
    return {name: unread(item) for name, item in value.items()}


def check_request(line: dict[str, Any]) -> None:
    """Encode and decode a recorded request."""
    plain, version = unread(line["request"]), line["version"]
    body = from_plain(message_class(line["api"] + "Request"), plain)
    if version not in body.MESSAGE.versions:
        assert line["api"] == "ApiVersions", "only a client's first question may have an unknown version"
        with pytest.raises(UnsupportedVersionError):
            encode(body, version)
        return
    frame = encode_request(body, version, correlation_id=line["n"], client_id=line.get("client", "wire-story"))
    request = decode_request(frame)
    assert request.body == body
    assert to_plain(request.body, version) == plain
    assert request.header.correlation_id == line["n"]


def check_response(line: dict[str, Any]) -> None:
    """Encode and decode a recorded answer."""
    plain, version = unread(line["response"]), line["version"]
    kind = message_class(line["api"] + "Response")
    answered, header = line.get("answered", version), response_header_version(kind.MESSAGE, version)
    body = from_plain(kind, plain)
    frame = encode_response(body, answered, correlation_id=line["n"], header_version=header)
    hidden = json.dumps(line["response"]).count(HIDDEN_PATH) * (HIDDEN + len(line["release"]))
    assert len(frame) + hidden == line["size"]
    correlation_id, found, decoded = decode_response(kind, version, frame)
    assert (correlation_id, found) == (line["n"], answered)
    assert decoded == body
    assert to_plain(decoded, answered) == plain


def check_raw(line: dict[str, Any]) -> None:
    """Decode the bytes of a recorded frame that no client would send, and the bytes of its answer."""
    frame = bytes.fromhex(line["sent_hex"])[4:]
    if line["raw"] in UNDECODABLE:
        assert "answer_hex" not in line or line["raw"] in ANSWERED_BY_OLD_RELEASES
        with pytest.raises(ProtocolError):
            decode_request(frame)
    if line["raw"] in DECODABLE:
        header, body = decode_request(frame)
        answer = bytes.fromhex(line["answer_hex"])
        kind = message_class(body.MESSAGE.name.replace("Request", "Response"))
        correlation_id, version, response = decode_response(kind, header.request_api_version, answer)
        assert correlation_id == header.correlation_id
        assert encode_response(response, version, correlation_id=correlation_id) == answer


def check(line: dict[str, Any]) -> None:
    """Check one exchange."""
    if "raw" in line:
        check_raw(line)
        return
    check_request(line)
    if "response" in line:
        check_response(line)
    if "undecodable" in line:
        assert line["step"] == ANSWERED_IN_ANOTHER_VERSION
        with pytest.raises(ProtocolError, match=r"Responses at byte 12: length 159024, but 22 bytes are left"):
            decode_response(message_class("FetchResponse"), 1, bytes.fromhex(line["hex"]))


@pytest.mark.parametrize("file", recordings(), ids=lambda file: f"{file.parent.name}-{file.name}")
def test_every_recorded_exchange_is_encoded_and_decoded(file: Path) -> None:
    apis: dict[str, int] = {}
    for line in read_lines(file):
        line.setdefault("release", file.parent.name)
        apis[line.get("api", "raw")] = apis.get(line.get("api", "raw"), 0) + 1
        try:
            check(line)
        except (AssertionError, ProtocolError) as error:
            place = [line.get(name) for name in ("n", "step", "api", "version")]
            raise AssertionError(f"{file.parent.name}/{file.name}, {place}: {error}") from error
    if not RECORDINGS:
        assert len(apis) == 63
        assert sum(apis.values()) > 600


def test_a_version_that_is_not_known_is_an_error_of_its_own() -> None:
    frame = bytes.fromhex(
        next(line["sent_hex"] for line in read_lines(SHARE) if line.get("raw") == "Metadata, version 99")
    )
    with pytest.raises(UnsupportedVersionError, match=r"MetadataRequest v99: the version does not exist"):
        decode_request(frame[4:])


def kind_of(line: dict[str, Any]) -> str:
    """Return what a line is an example of: API, version, which fields have values, errors."""
    if "raw" in line:
        return str(line["raw"])
    errors = re.findall(r'ErrorCode":(-?\d+)', json.dumps(line.get("response"), separators=(",", ":")))
    return f"{line['api']} {line['version']} {'response' in line} {any(error != '0' for error in errors)}"


def select(folder: Path) -> list[str]:
    """Return the share: the smallest exchanges of each kind, from all releases."""
    kinds: dict[str, list[str]] = {}
    for file in sorted(folder.glob("*/s*.jsonl*")):
        for line in read_lines(file):
            text = json.dumps({"release": file.parent.name, **line}, separators=(",", ":"))
            if len(text) < 6000 or line.get("api") == "ApiVersions":
                kinds.setdefault(kind_of(line), []).append(text)
    # The middle sizes: the smallest answers have empty arrays.
    return [text for texts in kinds.values() for text in sorted(texts, key=len)[len(texts) // 2 :][:PER_KIND]]


if __name__ == "__main__":
    with gzip.GzipFile(SHARE, "wb", mtime=0) as out:
        out.write("\n".join(select(Path(sys.argv[1]))).encode())
