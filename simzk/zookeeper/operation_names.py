"""How requests and errors are called where somebody speaks of them: faults, their listings, their history.

Rules of this module:
  - an operation is called as the table of operations says (operations.py);
  - an error is called as kazoo's exception class or as the protocol's code: NoNodeError, NO_NODE;
  - a request's paths are all that it speaks of: a multi's are those of its operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.tuples import NamedTuple
from simzk.zookeeper import requests as req
from simzk.zookeeper.operations import OPERATIONS, Kind
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from simzk.zookeeper.requests import Request

OPERATION_NAMES: dict[type, str] = {
    operation.request: operation.name for operation in OPERATIONS if operation.kind is not Kind.PART
}

UNASKED = frozenset(operation.name for operation in OPERATIONS if operation.unasked)
"""What a client library sends by itself, or as its last word; whoever speaks of any operation does not mean these."""


def operation_and_paths(request: Request) -> tuple[str, tuple[str, ...]]:
    """What a request is called, and the paths that it speaks of; empty for one that no client should send.

    >>> operation_and_paths(req.Multi((req.Check("/a", 1), req.Delete("/b", -1))))
    ('transaction', ('/a', '/b'))
    """
    name = OPERATION_NAMES.get(type(request), "")
    if isinstance(request, req.Multi | req.MultiRead):
        return name, tuple(operation.path for operation in request.operations if operation.path is not None)
    if isinstance(request, req.GetEphemerals):
        return name, () if request.prefix is None else (request.prefix,)
    path = getattr(request, "path", None)
    return name, () if path is None else (path,)


def _squashed(name: str) -> str:
    return name.removesuffix("Error").replace("_", "").lower()


_CODES = {_squashed(code.name): code for code in Code if code is not Code.OK}

ERRORS: dict[str, int] = {code.name: int(code) for code in Code if code is not Code.OK}


def code_of(name: str) -> Code | None:
    """The error of a name, as kazoo or the protocol calls it; None where no server sends such an error.

    >>> code_of("NoNodeError"), code_of("NO_NODE"), code_of("NoNoodle")
    (<Code.NO_NODE: -101>, <Code.NO_NODE: -101>, None)
    """
    return _CODES.get(_squashed(name))


_HINTS = {kind.__name__.lower(): name for kind, name in OPERATION_NAMES.items()}
_STRIKES: dict[int, str] = {Code.CONNECTION_LOSS: "drop_request", Code.SESSION_EXPIRED: "expire"}


class Vocabulary(NamedTuple):
    """All these names as one value, for whoever is to know them without knowing ZooKeeper.

    Attributes:
        operations: what requests are called.
        unasked: those of them that a client library sends by itself.
        hints: the protocol's words for operations, in lower case, and the names that are used here.
        errors: the codes by name.
        strikes: what happens instead of being answered where somebody asks for an error that no server answers with.
    """

    operations: tuple[str, ...] = tuple(dict.fromkeys(OPERATION_NAMES.values()))
    unasked: frozenset[str] = UNASKED
    hints: dict[str, str] = _HINTS
    errors: dict[str, int] = ERRORS
    strikes: dict[int, str] = _STRIKES

    def code_of(self, name: str) -> int | None:
        """As `code_of`."""
        return code_of(name)


VOCABULARY = Vocabulary()
