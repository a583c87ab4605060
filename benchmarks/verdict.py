"""What stands behind a figure: what is demanded of it, and whether it holds."""

from __future__ import annotations


def verdict(demanded: str, holds: bool) -> str:
    """As every benchmark tells it: `(demanded 3: MISSED)`."""
    return f"(demanded {demanded}: {'holds' if holds else 'MISSED'})"
