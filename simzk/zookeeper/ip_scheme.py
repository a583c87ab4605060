"""The ip scheme: addresses and blocks of them in ACLs (§4), read as IPAuthenticationProvider reads them."""

from __future__ import annotations

import re

_DECIMAL = r"[+-]?[0-9]+"
_HEX_GROUP = r"[+-]?[0-9a-fA-F]{1,4}"


def _java_int(text: str) -> int | None:
    """`Integer.parseInt`, None where it throws."""
    if re.fullmatch(_DECIMAL, text) is None:
        return None
    number = int(text)
    return number if -(1 << 31) <= number < 1 << 31 else None


def _v4_bytes(text: str) -> bytes | None:
    numbers = [_java_int(part) for part in text.split(".")]
    if len(numbers) != 4 or any(number is None or not 0 <= number <= 255 for number in numbers):
        return None
    return bytes(number for number in numbers if number is not None)


def _v6_groups(text: str) -> list[int] | None:
    groups = text.split(":") if text else []
    if any(len(group) > 4 or re.fullmatch(_HEX_GROUP, group) is None for group in groups):
        return None
    return [int(group, 16) & 0xFFFF for group in groups]


def _v6_bytes(text: str) -> bytes | None:
    halves = text.split("::")
    if len(halves) > 2:
        return None
    parsed = [_v6_groups(half) for half in halves]
    head, tail = parsed[0], parsed[1] if len(halves) == 2 else []
    if head is None or tail is None:
        return None
    missing = 8 - len(head) - len(tail)
    if (missing != 0) if len(halves) == 1 else (missing < 1):
        return None
    return b"".join(group.to_bytes(2, "big") for group in [*head, *[0] * missing, *tail])


def _address_bytes(text: str) -> bytes | None:
    if ":" in text:
        return _v6_bytes(text)
    return _v4_bytes(text) if "." in text else None


def _block(text: str) -> tuple[bytes, int] | None:
    """The address and the number of leading bits that count, or None where the text is no block."""
    address_text, slash, bits_text = text.partition("/")
    address = _address_bytes(address_text)
    if address is None:
        return None
    bits = _java_int(bits_text) if slash else len(address) * 8
    return (address, bits) if bits is not None and 0 <= bits <= len(address) * 8 else None


def ip_is_valid(text: str) -> bool:
    """Whether an ACL may hold this id of the ip scheme.

    >>> [ip_is_valid(text) for text in ("10.0.0.0/8", "::1", "10.0.0", "1.2.3.4/33")]
    [True, True, False, False]
    """
    return _block(text) is not None


def ip_matches(address_text: str, block_text: str) -> bool:
    """Whether a connection from `address_text` is of the block that an ACL names.

    >>> ip_matches("10.1.2.3", "10.0.0.0/8"), ip_matches("11.1.2.3", "10.0.0.0/8")
    (True, False)
    """
    block, address = _block(block_text), _address_bytes(address_text)
    if block is None or address is None or len(address) != len(block[0]):
        return False
    ignored = len(address) * 8 - block[1]
    return int.from_bytes(address, "big") >> ignored == int.from_bytes(block[0], "big") >> ignored
