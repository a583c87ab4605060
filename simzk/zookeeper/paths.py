"""Which paths may name a znode, and how a path falls into parent and name (§1.9).

Rules of this module:
  - pure functions of a path; what is refused is told by False, the caller knows the code;
  - characters are judged as UTF-16 units, as Java sees them: no surrogates, hence nothing outside the basic plane.

Source: org.apache.zookeeper.common.PathUtils.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Compiled when first used, as all patterns of this room are: most servers need none of them.
_BAD_CHARACTER = "[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]"

_PRINTABLE = bytes(range(0x20, 0x7F))

SPECIAL_PATHS = frozenset(("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"))
"""Nodes that no client may delete (DataTree.isSpecialPath)."""


def is_valid_name(name: str) -> bool:
    """Whether `name` may stand between two slashes of a path.

    >>> [is_valid_name(name) for name in ("a", "...", ".", "", "a\\x00")]
    [True, True, False, False, False]
    """
    if not name or name in (".", ".."):
        return False
    # Printable ASCII is the common case, and a few times cheaper to see than to search for what is bad.
    return (name.isascii() and name.isprintable()) or re.search(_BAD_CHARACTER, name) is None


def is_valid_path(path: str) -> bool:
    """Whether `path` may name a znode.

    >>> [is_valid_path(path) for path in ("/", "/a/b", "/a/", "a", "//a", "/a/../b")]
    [True, True, False, False, False, False]
    """
    if path == "/":
        return True
    return path.startswith("/") and all(map(is_valid_name, path[1:].split("/")))


def first_invalid(paths: Sequence[str]) -> int | None:
    """The place of the first path that may name no znode, None where all may.

    Paths of printable ASCII whose names begin with no point, which nearly all are, are looked at together.

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
    """The parent of a znode's path as clients write it; of "/" it is "/" itself.

    >>> parent_of("/a/b"), parent_of("/a")
    ('/a', '/')
    """
    return path[: path.rfind("/")] or "/"


def ancestors_of(path: str) -> list[str]:
    """All proper ancestors of a path, nearest first, down to "/".

    >>> ancestors_of("/a/b/c")
    ['/a/b', '/a', '/']
    """
    ancestors = []
    while path not in ("/", ""):
        path = parent_of(path)
        ancestors.append(path)
    return ancestors
