"""How the code of an error travels from the check that found it to the reply (the real server's KeeperException)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simzk.zookeeper.replies import Code


class RefusedError(Exception):
    """A request that the server refuses. It never leaves `Server.handle`, which answers with the code.

    Args:
        code: what the client is told.
        body: what the reply carries all the same; only a `MultiRead` that stumbles half-way has one.
    """

    def __init__(self, code: Code, body: object = None) -> None:
        self.code = code
        self.body = body
        super().__init__(code)
