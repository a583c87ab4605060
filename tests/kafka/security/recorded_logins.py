"""Logins and permissions at real brokers, and what of them is compared.

`data/logins.jsonl.gz` has one conversation a line: release, story, name, and its lines as `conversations.py` says. It
is made by

    SIMZK_KAFKA_JARS=~/.cache/simzk-kafka python -m tests.conformance.real_kafka.record_logins

Rules of this module: beside what `tests/kafka/client_requests/recorded.py` masks,
  - the server's part of a nonce is random, and so are the proof and the signature, which are made of it; the client of
    the stories checks the signature, and notes whether it was right;
  - the salt of a delegation token is random; that of a user is fixed;
  - ids, secrets and times of delegation tokens are of their cluster, as is the lifetime of a session by such a token;
  - producer ids are of their cluster, and are in the records of requests; a transaction began when it began;
  - partitions of a transaction, and transactions, are in the order of hash maps.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from tests.kafka.client_requests.recorded import masked
from tests.kafka.recorded_lines import read_lines
from tests.kafka.security.login_stories import LIFETIME_MS, NONCE, SALT_TEXT

FILE = Path(__file__).with_name("data") / "logins.jsonl.gz"
OF_TOKENS = ("TokenId", "Hmac", "IssueTimestampMs", "IssueTimestamp", "ExpiryTimestampMs", "ExpiryTimestamp")
MAX_OF_TOKENS = ("MaxTimestampMs", "MaxTimestamp")
OF_PRODUCERS = ("ProducerId", "V3AndBelowProducerId", "TransactionStartTimeMs")
UNORDERED = ("ResultsByTopicV3AndBelow", "ResultsByPartition", "TransactionStates", "Topics", "Tokens")
"""Collections in the order of hash maps, of records or of znodes."""
_NONCE = re.compile(rf"(?<=r={re.escape(NONCE)})[^,]+|(?<=r=abc)[0-9a-z]{{20,}}")
_SALT = re.compile(rf"(?<=s=)(?!{re.escape(SALT_TEXT)})[^,]+")
_PROOF = re.compile(r"(?<=,p=)(?!AAAA\b)[^,]{20,}(?<!AAAAAAA=)|(?<=v=)[^,]+")
_TOKEN_ID = re.compile(r"(?<=n=)[\w-]{22}(?=,)")


@cache
def conversations() -> tuple[Any, ...]:
    """Return all conversations."""
    return tuple(read_lines(FILE))


def comparable(lines: Any) -> Any:
    """Return the lines of a conversation without chance."""
    return [masked(_masked(line)) for line in lines]


def _masked(value: Any, field: str = "") -> Any:
    if field in (*OF_TOKENS, *MAX_OF_TOKENS):
        return value if value in (-1, "", {"text": ""}) else "*"
    if field == "Records" or (field in OF_PRODUCERS and value >= 0):
        return "*"
    if field == "SessionLifetimeMs" and value > LIFETIME_MS:
        return "*"
    if isinstance(value, dict):
        return {name: _masked(item, name) for name, item in value.items()}
    if isinstance(value, list):
        items = [_masked(item) for item in value]
        return sorted(items, key=json.dumps) if field in UNORDERED else items
    if field == "text":
        for pattern in (_NONCE, _SALT, _PROOF, _TOKEN_ID):
            value = pattern.sub("*", value)
    return value
