"""Each distinct ACL of a tree, kept once and counted (ReferenceCountedACLCache)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from simzk.zookeeper.requests import OPEN_ACL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simzk.zookeeper.requests import ACL


class ACLCache:
    """Hands out one object for equal ACLs; the open ACL, which most nodes have, is not even counted."""

    __slots__ = ("_one", "_uses")

    def __init__(self) -> None:
        self._one: dict[tuple[ACL, ...], tuple[ACL, ...]] = {}
        self._uses: Counter[tuple[ACL, ...]] = Counter()

    def __len__(self) -> int:
        return len(self._one)

    def __iter__(self) -> Iterator[tuple[ACL, ...]]:
        return iter(self._one)

    def keep(self, acl: tuple[ACL, ...]) -> tuple[ACL, ...]:
        """The one object for this ACL, used once more from now on."""
        if acl is OPEN_ACL or acl == OPEN_ACL:
            return OPEN_ACL
        self._uses[acl] += 1
        return self._one.setdefault(acl, acl)

    def release(self, acl: tuple[ACL, ...]) -> None:
        """One use less of an ACL that `keep` gave."""
        if acl is OPEN_ACL:
            return
        assert self._uses[acl] > 0, "an ACL is released as often as it was kept"
        self._uses[acl] -= 1
        if not self._uses[acl]:
            del self._uses[acl], self._one[acl]

    def check(self, in_use: Iterable[tuple[ACL, ...]]) -> None:
        """Assert that what is kept is what `in_use` lists, one entry a use."""
        uses = Counter(acl for acl in in_use if acl is not OPEN_ACL)
        assert uses == self._uses
        assert set(uses) == set(self._one)
