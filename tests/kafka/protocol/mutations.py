"""Bytes of messages, changed as broken or hostile clients might."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

PIECES = (b"\x7f\xff\xff\xff", b"\xff" * 4, b"\xff\xff\xff\xff\x0f", b"\x80" * 6, b"\0")


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Return bytes with a few bits, bytes or lengths changed, cut, doubled or inserted."""
    changed = bytearray(data or b"\0")
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(changed) + 1)
        piece = rng.choice([*PIECES, rng.randbytes(2)])
        match rng.randrange(5):
            case 0:
                changed[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                changed[at : at + len(piece)] = piece
            case 2:
                changed[at:at] = piece
            case 3:
                del changed[at : at + rng.choice([1, 2, 4, 50])]
            case _:
                changed[at:at] = changed[at : at + 8]
    return bytes(changed)
