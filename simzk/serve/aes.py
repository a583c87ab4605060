"""AES as far as key stores need it: CBC, unpacked. Python brings none, and what a store holds is a few KiB.

Source: FIPS 197, NIST SP 800-38A.
"""

from __future__ import annotations

BLOCK_BYTES = 16


def _multiplied(left: int, right: int) -> int:
    """In the field of AES."""
    product = 0
    while right:
        if right & 1:
            product ^= left
        left = left << 1 ^ (0x11B if left & 0x80 else 0)
        right >>= 1
    return product


def _boxes() -> tuple[bytes, bytes]:
    box = bytearray(256)
    for value in range(256):
        inverse = next((other for other in range(256) if _multiplied(value, other) == 1), 0)
        box[value] = 0x63
        for shift in range(5):
            box[value] ^= (inverse << shift | inverse >> (8 - shift)) & 0xFF
    back = bytearray(256)
    for value, boxed in enumerate(box):
        back[boxed] = value
    return bytes(box), bytes(back)


# Bytes of a block stand column by column; the inverse of ShiftRows takes each from here.
_FROM = [(index - 4 * (index % 4)) % 16 for index in range(16)]
_MIXING = (14, 11, 13, 9)


def decrypt_cbc(key: bytes, start: bytes, data: bytes) -> bytes:
    """What was encrypted, with its padding.

    Args:
        key: of 16, 24 or 32 bytes.
        start: the initialization vector.
        data: whole blocks.

    >>> key = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
    >>> decrypt_cbc(key, bytes(range(16)), bytes.fromhex("7649abac8119b246cee98e9b12e9197d")).hex()
    '6bc1bee22e409f96e93d7e117393172a'
    """
    assert len(data) % BLOCK_BYTES == 0, "whole blocks"
    box, back = _boxes()
    rounds = _expanded(key, box)
    times = [bytes(_multiplied(value, factor) for value in range(256)) for factor in _MIXING]
    out = bytearray()
    for at in range(0, len(data), BLOCK_BYTES):
        block = data[at : at + BLOCK_BYTES]
        out += _xor(_decrypted(block, rounds, back, times), start)
        start = block
    return bytes(out)


def _expanded(key: bytes, box: bytes) -> list[bytes]:
    """A key of 16 bytes for each round."""
    words = [key[at : at + 4] for at in range(0, len(key), 4)]
    length = len(words)
    constant = 1
    while len(words) < 4 * (length + 7):
        word = words[-1]
        if len(words) % length == 0:
            word = bytes(box[byte] for byte in word[1:] + word[:1])
            word = bytes([word[0] ^ constant]) + word[1:]
            constant = _multiplied(constant, 2)
        elif length > 6 and len(words) % length == 4:
            word = bytes(box[byte] for byte in word)
        words.append(_xor(word, words[-length]))
    return [b"".join(words[at : at + 4]) for at in range(0, len(words), 4)]


def _decrypted(block: bytes, rounds: list[bytes], back: bytes, times: list[bytes]) -> bytes:
    state = _xor(block, rounds[-1])
    for number in range(len(rounds) - 2, -1, -1):
        state = _xor(bytes(back[state[index]] for index in _FROM), rounds[number])
        if number:
            state = b"".join(_unmixed(state[at : at + 4], times) for at in range(0, BLOCK_BYTES, 4))
    return state


def _unmixed(column: bytes, times: list[bytes]) -> bytes:
    return bytes(
        times[0][column[row]]
        ^ times[1][column[(row + 1) % 4]]
        ^ times[2][column[(row + 2) % 4]]
        ^ times[3][column[(row + 3) % 4]]
        for row in range(4)
    )


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(left, right, strict=True))
