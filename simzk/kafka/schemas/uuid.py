"""UUIDs as Kafka writes them."""

from __future__ import annotations

import base64

UUID_BITS = 128


def uuid_text(bits: int) -> str:
    """A random UUID (version 4) of the lower 128 bits given: 22 characters of URL-safe base64.

    >>> uuid_text(0)
    'AAAAAAAAQACAAAAAAAAAAA'
    """
    bits &= (1 << UUID_BITS) - 1
    bits = bits & ~(0xF << 76) | 4 << 76
    bits = bits & ~(0x3 << 62) | 2 << 62
    return base64.urlsafe_b64encode(bits.to_bytes(UUID_BITS // 8, "big")).decode().rstrip("=")
