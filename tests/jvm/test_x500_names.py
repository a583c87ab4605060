"""Names that Java accepts; the tables are what Java 17 answered (tests/conformance/test_odd_texts.py)."""

from __future__ import annotations

import random

import pytest

from simzk.jvm.x500_names import is_valid_x500_name

ACCEPTED = (
    "", "CN=", "CN=a", "cn=a, O=b", "CN=a;O=b", "CN=a+O=b", "OU==", "CN=a=b", "OID.1.2.3=x", "oid.2.999=x", "1.2.3=x",
    "1.2.\u0663=x", "2.99999999999=x", "\u017ft=x", "\ufb06=x", "\u0131p=x", "\tL =x", "CN= \n a \n",
    "CN=\\,", "CN=\\41", "CN=\\ ", "CN=\\\n", 'CN="a,b"', 'CN="a" \n', 'CN="\\""', "CN=+O=b", "CN=,O=b", "CN=a\rb",
    "CN=\U0001f600",
    "CN=#0400", "CN=#0401ff", "CN=#0481020102", "CN=#24800000", "CN=#24800401010000", "CN=#2480248000000000",
)  # fmt: skip
REFUSED = (
    "a", "=", "=a", "FOO=a", "CN=a,", "CN=a,,O=b", "+CN=a", "CN=a+", "OID.CN=a", "1=x", "3.1=x", "1.40=x", "1.-2=x",
    "1..2=x", "+1.2=x", "1.+2=x",
    "CN=\u00e9\\", "CN=\\x", "CN=\\4", "CN=\\4g", "CN=a<", "CN=a>", 'CN=a"b', 'CN="a', 'CN="a"b', 'CN="\\ "',
    "\u00a0CN=a",
    "CN=#", "CN=#04", "CN=#0", "CN=#zz", "CN=#0402ff", "CN=#040000", "CN=#0400 ", "CN=#1f0100", "CN=#0485",
    "CN=#048000",
    "CN=#248004", "CN=#2480000000",
)  # fmt: skip

_PARTS = (
    *",;+=\\\"#<> \n\r\t'/aF09xz\u0661\uff21\u017f\u00e9", "CN", "OU", "OID.", "oid.", "1.2.3", "2.999", "CN=", "O=",
    "1.2=", "\\,", "\\41",
    '"a"', '"a,b"', "#0400", "#0401ff", "#2480", "0000", "#04", "80", "24", "81", "1f", "ff", "a=b", ", ",
)  # fmt: skip


def random_names(seed: int, count: int) -> list[str]:
    """Return names that Java's grammar accepts or refuses by little."""
    draw = random.Random(seed)
    names = []
    for _ in range(count):
        begin = draw.choice(("", "CN=", "CN=", "CN=#", "OU=a,", 'CN="'))
        names.append(begin + "".join(draw.choices(_PARTS, k=draw.randrange(1, 7))))
    return names


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_name_that_java_accepts(name: str) -> None:
    assert is_valid_x500_name(name)


@pytest.mark.parametrize("name", REFUSED)
def test_a_name_that_java_refuses(name: str) -> None:
    assert not is_valid_x500_name(name)


def test_no_text_is_too_odd_to_be_judged() -> None:
    judged = {is_valid_x500_name(name) for name in random_names(1, 5000)}
    assert judged == {True, False}
