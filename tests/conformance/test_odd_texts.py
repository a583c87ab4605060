"""Texts that a real ZooKeeper reads by rules of Java: malformed UTF-8, addresses, names, lines of a digest."""

from __future__ import annotations

from contextlib import closing
from itertools import product
from struct import pack
from typing import TYPE_CHECKING

import pytest

from simzk.jvm.texts import decode_text
from simzk.jvm.x500_names import is_valid_x500_name
from simzk.zookeeper import requests as req
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from tests.conformance.arms import Raw
from tests.conformance.java_tools import told_by_java
from tests.conformance.pair import CLIENTS, CONFIG, PROPERTIES, SETTINGS, TICK_MS, TIMEOUT_MS, Pair
from tests.conformance.real_zookeeper import RealZooKeeper
from tests.conformance.simulated_arms import SimulatedArm
from tests.jvm.test_x500_names import ACCEPTED, REFUSED, random_names

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from simzk.zookeeper.config import ServerConfig

pytestmark = [pytest.mark.slow, pytest.mark.java]

ONE = CLIENTS[0]
ANYONE = ACL(31, Id("world", "anyone"))

# The first and last bytes of each kind in UTF-8.
EDGES = bytes.fromhex("41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 f8 ff")

SURROGATES = (
    b"\xed\xa0",
    b"\xed\xbf",
    b"/\xed\xa0x",
    b"\xed\xa0\xbd",
    b"\xed\xa0\xed\xb0\x80",
    b"/\xed\xa0\xed",
    b"\xed",
)

ADDRESSES = (
    "\u0661.2.3.4", "1.2.3.4/\u0663", "\uff11\uff12\uff17.0.0.1", "::\uff21", "::\uff41", "\u0661::", "::\U0001d7d81",
    "1.2.3.\U0001d7d8", "::+", "::-", "::-1", "::-ffff", "::+fff", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::",
    "::2:3:4:5:6:7:8",
    "1::2::3", ":::", "1.2.3.4/", "1.2.3.4/+8", "1.2.3.4/-0", "1.2.3.4/8/1", "+1.-0.3.4", "::/128", "::/129", "1::/0",
    "1.2.3.4\n", "01.2.3.4", "0000000001.2.3.4", "::00001", " ::1", "1.2.3.4:5", "::1.2.3.4", "", " ", "1.2.3.4.",
    "::ffff:1.2.3.4", "\u0d66::", "::\uff11\uff12", "1.2.3.\u00b2", "::\u2160",
)  # fmt: skip
OWN_ADDRESSES = (
    "\u0661\u0662\u0667.0.0.1", "127.0.0.1/\u0668", "\uff11\uff12\uff17.\uff10.0.1/32", "127.0.0.0/1", "128.0.0.0/1",
    "0.0.0.0/0",
)  # fmt: skip

DIGESTS = (
    "u:a\nb", "u:a\rb", "u:a\x85b", "u:a\u2028b", "u:a\u2029b", "u:a\x0bb", "u:a\x0cb", "u:a\x1cb", "u\n:a\nb",
    "u:a\r\nb",
    "\u2028:x", "u:\u2028", "u:x\n:", "u:x\n::", "a\n:b\r:", ":a",
)  # fmt: skip


def _text(value: str) -> bytes:
    data = value.encode()
    return pack(">i", len(data)) + data


def _operation(kind: int, *fields: bytes) -> bytes:
    return pack(">ibi", kind, 0, -1) + b"".join(fields)


_NO_ACL = _text("/x") + _text("") + pack(">i", -1)
_READ = _text("/") + b"\0"
# Operations of a multi, and whether the real server finds them malformed before it takes a zxid.
OPERATIONS = {
    "getChildren": _operation(8, _READ),
    "getData": _operation(4, _READ),
    "delete": _operation(2, _text("/x"), pack(">i", -1)),
    "create without ACL": _operation(1, _NO_ACL, pack(">i", 0)),
    "create2 without ACL": _operation(15, _NO_ACL, pack(">i", 0)),
    "container without ACL": _operation(19, _NO_ACL, pack(">i", 4)),
    "TTL without ACL": _operation(21, _NO_ACL, pack(">iq", 5, 10)),
    "TTL flags without ACL": _operation(1, _NO_ACL, pack(">i", 5)),
    "bad flags without ACL": _operation(1, _NO_ACL, pack(">i", 9)),
    "create with an empty ACL": _operation(1, _text("/x"), _text(""), pack(">ii", 0, 0)),
    "unknown": _operation(99),
    "setACL": _operation(7, _text("/x")),
    "cut off": b"\0",
}
END = pack(">ibi", -1, 1, -1)


def asked_java(tmp_path: Path, kind: str, texts: Iterable[bytes]) -> list[str]:
    file = tmp_path / "texts"
    file.write_text("".join(f"{kind} {text.hex()}\n" for text in texts))
    return told_by_java("Texts.java", str(file)).split("\n")[:-1]


@pytest.mark.timeout(150)
def test_malformed_utf_8_is_decoded_as_java_decodes_it(tmp_path: Path) -> None:
    texts = [bytes(text) for length in (1, 2, 3) for text in product(EDGES, repeat=length)]
    texts += [b"a" + b"\xed\xa0" + bytes(rest) for rest in product(EDGES, repeat=2)]
    ours = [decode_text(text).encode("utf-16-be", "surrogatepass").hex() for text in texts]
    assert ours == asked_java(tmp_path, "text", texts)


@pytest.mark.timeout(150)
def test_names_are_accepted_as_java_accepts_them(tmp_path: Path) -> None:
    names = [*ACCEPTED, *REFUSED, *random_names(0, 20_000)]
    answers = asked_java(tmp_path, "name", (name.encode("utf-16-be") for name in names))
    wrong = [name for name, java in zip(names, answers, strict=True) if is_valid_x500_name(name) != (java == "1")]
    assert not wrong
    assert set(answers) == {"0", "1"}


def test_a_part_of_a_surrogate_is_one_character(pair: Pair) -> None:
    pair.connect(ONE, TIMEOUT_MS)
    for data in SURROGATES:
        pair.send(ONE, [Raw(9, pack(">i", len(data)) + data)])
        pair.send(ONE, [req.Auth(0, "digest", b"bob" + data + b":x"), req.WhoAmI()])
    pair.send(ONE, [req.Create("/auth", b"", (ACL(31, Id("auth", "")),), 0), req.GetACL("/auth")])
    pair.clean()


def test_addresses_in_acls_are_read_alike(pair: Pair) -> None:
    pair.connect(ONE, TIMEOUT_MS)
    for address in ADDRESSES:
        pair.send(ONE, [req.Create("/ip", b"", (ACL(31, Id("ip", address)), ANYONE), 0), req.GetACL("/ip")])
        pair.send(ONE, [req.Delete("/ip", -1)])
    for address in OWN_ADDRESSES:
        pair.send(ONE, [req.Create("/ip", b"", (ACL(31, Id("ip", address)),), 0), req.GetData("/ip", False)])
        pair.send(ONE, [req.Delete("/ip", -1)])
    assert {("Create", -114), ("GetData", -102)} <= pair.met.keys()
    pair.clean()


def test_lines_of_a_digest_are_hidden_alike(pair: Pair) -> None:
    pair.connect(ONE, TIMEOUT_MS)
    for digest in DIGESTS:
        acl = (ACL(1, Id("digest", digest)), ACL(1, Id("world", "anyone")))
        pair.send(ONE, [req.Create("/d", b"", acl, 0), req.GetACL("/d"), req.Delete("/d", -1)])
    pair.clean()


@pytest.mark.parametrize("opcode", [14, 22])
def test_multis_that_do_not_parse_take_a_zxid_alike(pair: Pair, opcode: int) -> None:
    pair.connect(ONE, TIMEOUT_MS)
    for first, second in product(OPERATIONS.values(), repeat=2):
        pair.send(ONE, [Raw(opcode, first + second + END), req.Exists("/", False)])
    for middle in OPERATIONS.values():
        pair.send(ONE, [Raw(opcode, OPERATIONS["getChildren"] + middle + OPERATIONS["create without ACL"] + END)])
    pair.send(ONE, [req.Exists("/", False)])
    pair.clean()


@pytest.mark.timeout(150)
def test_names_in_acls_are_accepted_alike() -> None:
    provider = "org.apache.zookeeper.server.auth.X509AuthenticationProvider"
    properties = {**PROPERTIES, "zookeeper.authProvider.x509": provider}
    config: ServerConfig = CONFIG._replace(x509=True)
    with RealZooKeeper(tick_time_ms=TICK_MS, settings=SETTINGS, properties=properties) as real:
        pair = Pair(real.port, SimulatedArm(config, zxid=0))
        with closing(pair.real):
            pair.connect(ONE, TIMEOUT_MS)
            for name in (*ACCEPTED, *REFUSED, *random_names(2, 200)):
                pair.send(ONE, [req.Create("/x", b"", (ACL(31, Id("x509", name)), ANYONE), 0), req.GetACL("/x")])
                pair.send(ONE, [req.SetACL("/x", OPEN_ACL, -1), req.Delete("/x", -1)])
            assert {("Create", -114), ("Create", 0)} <= pair.met.keys()
