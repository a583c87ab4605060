"""UUIDs as Kafka writes them."""

from __future__ import annotations

import base64
import binascii

UUID_BITS = 128
TEXT_LENGTH = 22


def uuid_text(bits: int) -> str:
    """A random UUID (version 4) of the lower 128 bits given: 22 characters of URL-safe base64.

    >>> uuid_text(0)
    'AAAAAAAAQACAAAAAAAAAAA'
    """
    bits &= (1 << UUID_BITS) - 1
    bits = bits & ~(0xF << 76) | 4 << 76
    bits = bits & ~(0x3 << 62) | 2 << 62
    return base64.urlsafe_b64encode(bits.to_bytes(UUID_BITS // 8, "big")).decode().rstrip("=")


def canonical_uuid(text: str) -> str | None:
    """A UUID's text as Kafka writes it again; None where it is none (Uuid.fromString).

    >>> canonical_uuid("AAAAAAAAQACAAAAAAAAAAA=="), canonical_uuid("x")
    ('AAAAAAAAQACAAAAAAAAAAA', None)
    """
    bare = text.removesuffix("==")
    if len(text) > TEXT_LENGTH + 2 or len(bare) != TEXT_LENGTH or not bare.isascii() or set("+/") & set(bare):
        return None
    try:
        bits = base64.b64decode(bare + "==", altchars=b"-_", validate=True)
    except binascii.Error:
        return None
    return base64.urlsafe_b64encode(bits).decode().rstrip("=")
