"""Entities that are no partitions: ACLs and the resources that they are about, as values."""

from __future__ import annotations

from typing import Final, NamedTuple

LITERAL, PREFIXED = "LITERAL", "PREFIXED"
PATTERNS: Final = (LITERAL, PREFIXED)


class AclEntry(NamedTuple):
    """ACL of a resource: `principal` such as `User:alice`, `permission` Allow or Deny, `operation` such as Read."""

    principal: str
    operation: str
    permission: str = "Allow"
    host: str = "*"


class AclResource(NamedTuple):
    """Resource of ACLs: its type such as `Topic`, its name or prefix, and which of the two it is."""

    kind: str
    name: str
    pattern: str = LITERAL


def is_principal(text: str) -> bool:
    """Return whether a text is a principal: a type and a name.

    >>> is_principal("User:alice"), is_principal("alice")
    (True, False)
    """
    kind, colon, _name = text.partition(":")
    return bool(kind and colon)
