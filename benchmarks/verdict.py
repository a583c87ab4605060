"""Comparison of a figure with its limit."""

from __future__ import annotations


def verdict(demanded: str, holds: bool) -> str:
    """As every benchmark tells it: `(demanded 3: MISSED)`."""
    return f"(demanded {demanded}: {'holds' if holds else 'MISSED'})"
