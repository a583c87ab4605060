"""Paths of znodes: validity, parents and ancestors (§1.9).

Rules of this module:
  - pure functions of a path; callers choose the error code of an invalid one;
  - characters are tested as UTF-16 units, as in Java: no surrogates, so nothing outside the basic plane.

Source: org.apache.zookeeper.common.PathUtils.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Compiled on first use by `re.search`: most servers never need it.
_BAD_CHARACTER = "[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]"

_PRINTABLE = bytes(range(0x20, 0x7F))

SPECIAL_PATHS = frozenset(("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"))
"""Nodes that clients cannot delete (DataTree.isSpecialPath)."""


def is_valid_name(name: str) -> bool:
    """Return whether `name` is a valid part of a path between slashes.

    >>> [is_valid_name(name) for name in ("a", "...", ".", "", "a\\x00")]
    [True, True, False, False, False]
    """
    if not name or name in (".", ".."):
        return False
    # Printable ASCII is the common case, and several times cheaper to test than the search for bad characters.
    return (name.isascii() and name.isprintable()) or re.search(_BAD_CHARACTER, name) is None


def is_valid_path(path: str) -> bool:
    """Return whether `path` is a valid path of a znode.

    >>> [is_valid_path(path) for path in ("/", "/a/b", "/a/", "a", "//a", "/a/../b")]
    [True, True, False, False, False, False]
    """
    if path == "/":
        return True
    return path.startswith("/") and all(map(is_valid_name, path[1:].split("/")))


def first_invalid(paths: Sequence[str]) -> int | None:
    """Return the index of the first invalid path, or None.

    Paths of printable ASCII without names that begin with a dot, which nearly all are, are tested together.

    >>> first_invalid(["/", "/a", "/a/b"]), first_invalid(["/a", "/a/", "/b"]), first_invalid(["/a/.b", "/a/..", "b"])
    (None, 1, 1)
    """
    together = "\0".join(("", *paths, ""))
    if together.isascii():
        text = together.encode()
        zeros = text.translate(None, _PRINTABLE)
        usual = len(zeros) == zeros.count(b"\0") == len(paths) + 1 == text.count(b"\0/") + 1
        if usual and not any(odd in text for odd in (b"//", b"/.", b"/\0")):
            return None
    return next((place for place, path in enumerate(paths) if not is_valid_path(path)), None)


def parent_of(path: str) -> str:
    """Return the path of the parent of a znode; "/" is its own parent.

    >>> parent_of("/a/b"), parent_of("/a")
    ('/a', '/')
    """
    return path[: path.rfind("/")] or "/"


def ancestors_of(path: str) -> list[str]:
    """Return all proper ancestors of a path, nearest first, up to "/".

    >>> ancestors_of("/a/b/c")
    ['/a/b', '/a', '/']
    """
    ancestors = []
    while path not in ("/", ""):
        path = parent_of(path)
        ancestors.append(path)
    return ancestors
