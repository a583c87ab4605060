"""Values in a page for its script: JSON in a data block, compressed if it is long.

A data block is a script element of a type that browsers do not execute, so that a Content Security Policy permits it.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from typing import TYPE_CHECKING

from simzk.printable import printable_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

JSON, DEFLATED = "application/json", "application/octet-stream"
"""Types of data blocks: JSON as it is; or compressed (RFC 1950) and in base64."""


def differences_of(numbers: Sequence[int]) -> list[int]:
    """Return each number minus the one before it, which compresses better if they ascend.

    >>> differences_of([5, 7, 7])
    [5, 2, 0]
    """
    return [number - before for before, number in zip([0, *numbers], numbers, strict=False)]


def data_block(value: object, plain_max: int) -> str:
    """Return a value as a data block.

    Args:
        value: a value of JSON, with keys that are text; control characters in it are escaped.
        plain_max: number of characters from which its JSON is compressed.

    >>> data_block(["</script>"], 100)
    '<script type="application/json">["\\\\u003c/script>"]</script>'
    >>> block = data_block(["a" * 999], 100)
    >>> block.partition(">")[0], len(block) < 100
    ('<script type="application/octet-stream"', True)
    """
    text = json.dumps(_shown(value), separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    if len(text) <= plain_max:
        return f'<script type="{JSON}">{text}</script>'
    return f'<script type="{DEFLATED}">{b64encode(zlib.compress(text.encode(), 9)).decode()}</script>'


def _shown(value: object) -> object:
    """Return a value of JSON with all text in it as a page shows it."""
    if isinstance(value, str):
        return printable_lines(value)
    if isinstance(value, dict):
        return {printable_lines(name): _shown(field) for name, field in value.items()}
    return list(map(_shown, value)) if isinstance(value, list | tuple) else value
