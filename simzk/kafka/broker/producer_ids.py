"""Producer ids of one broker, from blocks of a thousand (ProducerIdManager, RPCProducerIdManager; KIP-98, KIP-730).

Rules of this module:
  - up to 2.8 a broker takes a block from ZooKeeper when it starts, and the next one when that is used up;
  - later it asks the controller for a block when it needs the first id. Up to 3.5 the producer waits for it; since
    3.6 the answer is COORDINATOR_LOAD_IN_PROGRESS until the block has arrived (recorded 3.9).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simzk.errors import ZnodeError
from simzk.kafka.metadata.plane import MetadataRefusedError, MetadataUnavailableError
from simzk.kafka.rpc import Disconnected
from simzk.kafka.zookeeper_mode.schemas.cluster import PRODUCER_ID_BLOCK_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from simzk.simulation import Future, Process


class NoProducerIdsError(Exception):
    """No block of producer ids could be allocated."""


@dataclass(eq=False)
class ProducerIds:
    """Producer ids of one broker's process.

    Args:
        allocate: allocates a block and returns its first id.
        on_failure: called with the reason if that fails.
    """

    _process: Process
    _allocate: Callable[[], Coroutine[Future[Any], None, int]]
    _on_failure: Callable[[str], None]
    _ids: Iterator[int] = field(default_factory=lambda: iter(()), init=False)
    """Those left of the last block."""
    _is_asking: bool = field(default=False, init=False)
    _waiting: list[Callable[[int | None], None]] = field(default_factory=list, init=False)

    def prefetch(self) -> None:
        """Allocate the next block, because none is left of the last one."""
        if not self._is_asking:
            self._is_asking = True
            self._process.spawn(self._ask(), "producer ids")

    def take(self, answer: Callable[[int | None], None], *, waits: bool) -> None:
        """Call back with the next id; with None if there is none, or none yet and the caller does not wait."""
        producer_id = next(self._ids, None)
        if producer_id is None:
            if waits:
                self._waiting.append(answer)
            self.prefetch()
        if producer_id is not None or not waits:
            answer(producer_id)

    async def _ask(self) -> None:
        try:
            first = await self._allocate()
            self._ids = iter(range(first, first + PRODUCER_ID_BLOCK_SIZE))
        except (
            Disconnected,
            NoProducerIdsError,
            MetadataUnavailableError,
            MetadataRefusedError,
            ZnodeError,
        ) as problem:
            self._on_failure(str(problem))
        assert self._is_asking
        self._is_asking = False
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            answer(next(self._ids, None))
