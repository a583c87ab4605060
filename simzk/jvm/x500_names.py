"""Distinguished names that Java accepts: `new X500Principal(name)` of `javax.security.auth.x500`.

Rules of this module:
  - a name is valid if the constructor throws nothing; its form and its value stay as they are;
  - the grammar is Java's own, wider than RFC 2253: `;` separates, keywords may begin with `OID.`, a value may have `=`,
    and spaces and newlines around a value are skipped; separators and quotes are found before values are parsed;
  - a value after `#` must be one whole BER element, a value in quotes may end in nothing but spaces and newlines.

Source: sun.security.x509.X500Name, RDN, AVA and AVAKeyword; sun.security.util.DerValue and ObjectIdentifier (Java 17).
"""

from __future__ import annotations

import re
from typing import Final

from simzk.jvm.numbers import parse_digits

_KEYWORDS: Final = frozenset({
    "CN", "C", "L", "S", "ST", "O", "OU", "T", "IP", "STREET", "DC", "DNQUALIFIER", "DNQ", "SURNAME", "GIVENNAME",
    "INITIALS", "GENERATION", "EMAIL", "EMAILADDRESS", "UID", "SERIALNUMBER",
})  # fmt: skip
_TRIMMED: Final = "".join(map(chr, range(0x21)))
"""Characters that `String.trim` removes."""
_BLANKS: Final = " \n"
_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")
_UNESCAPED: Final = frozenset(',+<>;"')
"""Characters that may not occur in a value without a backslash."""
_ESCAPED: Final = frozenset(',=\n+<>#;\\" ')
_ESCAPED_IN_QUOTES: Final = _ESCAPED - {" "}
_LAST_ROOT_ARC, _LAST_SHORT_ARC = 2, 39
_LONGEST_OID_BYTES: Final = 4096
_LONG_TAG, _CONSTRUCTED, _LONG_FORM, _LENGTH_BITS = 0x1F, 0x20, 0x80, 0x7F
_LONGEST_LENGTH: Final = 4


def is_valid_x500_name(text: str) -> bool:
    """Return whether Java accepts a distinguished name.

    >>> [is_valid_x500_name(name) for name in ("", "CN=a, OU==", "OID.1.2.3=x", "CN=#0401ff", "CN=#04", "FOO=a", "a")]
    [True, True, True, True, False, False, False]
    """
    attributes = [attribute for part in _split_names(text) for attribute in _split_attributes(part)]
    return not text or all(map(_is_valid_attribute, attributes))


def _quotes(text: str, begin: int, end: int) -> int:
    """Return the number of quotes in a range that no backslash precedes; one at its begin counts in any case."""
    return sum(text[at] == '"' and (at == begin or text[at - 1] != "\\") for at in range(begin, end))


def _is_escaped(text: str, begin: int, at: int) -> bool:
    if text[at - 1 : at] != "\\":
        return False
    # After two backslashes, Java counts all those since the last separator, not the adjacent ones.
    return text[at - 2 : at - 1] != "\\" or at == 1 or text.count("\\", begin, at) % 2 == 1


def _split_names(text: str) -> list[str]:
    """Split a name at `,` and `;` (X500Name.parseDN)."""
    names, begin, searched, quotes = [], 0, 0, 0
    for found in re.finditer("[,;]", text):
        at = found.start()
        quotes += _quotes(text, searched, at)
        if quotes != 1 and not _is_escaped(text, searched, at):
            names.append(text[begin:at])
            begin, quotes = at + 1, 0
        searched = at + 1
    return [*names, text[begin:]]


def _split_attributes(text: str) -> list[str]:
    """Split a part of a name at `+` (RDN)."""
    attributes, begin, searched, quotes = [], 0, 0, 0
    for found in re.finditer(r"\+", text):
        at = found.start()
        quotes += _quotes(text, searched, at)
        if at > 0 and text[at - 1] != "\\" and quotes != 1:
            attributes.append(text[begin:at])
            begin, quotes = at + 1, 0
        searched = at + 1
    return [*attributes, text[begin:]]


def _is_valid_attribute(text: str) -> bool:
    keyword, equals, value = text.partition("=")
    if not equals or not _is_valid_keyword(keyword.upper().strip(_TRIMMED)):
        return False
    value = value.lstrip(_BLANKS)
    if value.startswith("#"):
        return _is_valid_hex(value[1:])
    return _is_valid_quoted(value[1:]) if value.startswith('"') else not value or _is_valid_plain(value)


def _is_valid_keyword(keyword: str) -> bool:
    if keyword in _KEYWORDS:
        return True
    keyword = keyword.removeprefix("OID.")
    return "0" <= keyword[:1] <= "9" and _is_valid_oid(keyword)


def _is_valid_oid(text: str) -> bool:
    arcs = [parse_digits(arc) for arc in text.split(".")]
    if len(arcs) < 2 or None in arcs:
        return False
    first, second, *others = [arc for arc in arcs if arc is not None]
    if min(first, second, *others) < 0 or first > _LAST_ROOT_ARC:
        return False
    if first < _LAST_ROOT_ARC and second > _LAST_SHORT_ARC:
        return False
    sizes = [max(1, -(-arc.bit_length() // 7)) for arc in (40 * first + second, *others)]
    return sum(sizes) <= _LONGEST_OID_BYTES


def _is_valid_plain(value: str) -> bool:
    """Return whether a value without quotes is valid: it ends at `+`, `,` or `;`, which only its begin may be."""
    at, size = 0, len(value)
    while at < size and (at == 0 or value[at] not in "+,;"):
        if value[at] != "\\":
            if value[at] in _UNESCAPED:
                return False
            at += 1
        elif (after := _after_escape(value, at, _ESCAPED)) is not None:
            at = after
        else:
            return False
    return True


def _is_valid_quoted(value: str) -> bool:
    """Return whether what follows an opening quote is valid."""
    at, size = 0, len(value)
    while at < size and value[at] != '"':
        after = _after_escape(value, at, _ESCAPED_IN_QUOTES) if value[at] == "\\" else at + 1
        if after is None:
            return False
        at = after
    return at < size and not value[at + 1 :].strip(_BLANKS)


def _after_escape(value: str, at: int, allowed: frozenset[str]) -> int | None:
    """Return the offset behind an escape (two hexadecimal digits, or one character), or None if it is invalid."""
    escaped = value[at + 1 : at + 2]
    if escaped in _HEX_DIGITS:
        return at + 3 if value[at + 2 : at + 3] in _HEX_DIGITS else None
    return at + 2 if escaped in allowed else None


def _is_valid_hex(value: str) -> bool:
    digits = re.split("[+,;]", value, maxsplit=1)[0]
    return len(digits) % 2 == 0 and _HEX_DIGITS.issuperset(digits) and _is_whole_element(bytes.fromhex(digits))


def _is_whole_element(data: bytes) -> bool:
    """Return whether bytes are one BER element and nothing else (DerValue)."""
    if len(data) < 2 or data[0] & _LONG_TAG == _LONG_TAG:
        return False
    if data[1] == _LONG_FORM:
        return bool(data[0] & _CONSTRUCTED) and _end_of_indefinite(data) == len(data)
    end = _end_of_definite(data, 1)
    return end == len(data)


def _end_of_definite(data: bytes, at: int) -> int | None:
    """Return the end of the element whose length is at `at`, or None if the length is invalid or cut off."""
    count = data[at] & _LENGTH_BITS
    if not data[at] & _LONG_FORM:
        return at + 1 + count
    if count > _LONGEST_LENGTH or len(data) < at + 1 + count:
        return None
    length = int.from_bytes(data[at + 1 : at + 1 + count], "big", signed=count == _LONGEST_LENGTH)
    return None if length < 0 else at + 1 + count + length


def _end_of_indefinite(data: bytes) -> int | None:
    """Return the end of an element of indefinite length, or None if it has none (DerIndefLenConverter)."""
    at, depth = 2, 1
    while depth and at + 2 <= len(data):
        if data[at + 1] == _LONG_FORM:
            depth, at = depth + 1, at + 2
            continue
        depth -= data[at] == data[at + 1] == 0
        end = _end_of_definite(data, at + 1)
        if end is None:
            return None
        at = end
    return None if depth else at
