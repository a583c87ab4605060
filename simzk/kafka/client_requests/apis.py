"""The table of APIs: the module that handles the requests of each, imported when the first such request arrives.

Few clients need all APIs, and their modules together would make up a fifth of the time that a process needs to start
its first cluster. To add an API: a row of `releases/api_versions.py`, its key here, and a handler in the module. If it
needs a permission, a row of `authorization.py` says which.

Rule of this module: each module below has a function `handlers`, which takes its parts from the broker and returns
handlers of exactly the API keys that stand beside it.
"""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from simzk.kafka.broker.admin_handlers import AdminHandlers
    from simzk.kafka.broker.configs import EntityConfigs
    from simzk.kafka.broker.delegation_tokens import DelegationTokens
    from simzk.kafka.broker.described_configs import DescribedConfigs
    from simzk.kafka.broker.log_dir_moves import LogDirMoves
    from simzk.kafka.broker.log_dirs import LogDirs
    from simzk.kafka.broker.producer_ids import ProducerIds
    from simzk.kafka.broker.producing import Producing
    from simzk.kafka.broker.transaction_markers import TransactionMarkers
    from simzk.kafka.broker.transaction_verification import TransactionVerification
    from simzk.kafka.client_requests.handlers import Answer, ClientApi, Context, Handler, ServingBroker
    from simzk.kafka.coordinator.group_coordinator import GroupCoordinator
    from simzk.kafka.coordinator.transaction_coordinator import TransactionCoordinator
    from simzk.kafka.metadata.plane import GroupOffsetStore
    from simzk.kafka.rpc import Respond
    from simzk.kafka.zookeeper_mode.controller.controller import KafkaController
    from simzk.simulation import Future

APIS: Final[Mapping[str, tuple[int, ...]]] = {
    "metadata": (3, 60),
    "records.produce": (0, 61),
    "records.fetch": (1,),
    "records.log_offsets": (2, 21, 23),
    "coordinators.groups": (10, 11, 12, 13, 14, 15, 16, 42),
    "coordinators.offsets": (8, 9, 28, 47),
    "coordinators.transactions": (22, 24, 25, 26, 27, 65, 66),
    "admin.topics": (19, 20, 37),
    "admin.leadership": (43, 45, 46),
    "admin.configs": (32, 33, 44),
    "admin.acls": (29, 30, 31),
    "admin.quotas": (48, 49),
    "admin.scram_users": (50, 51),
    "admin.tokens": (38, 39, 40, 41),
    "admin.log_dirs": (34, 35),
    "admin.features": (57,),
    "sasl": (17, 36),
    "broker_requests": (4, 5, 6, 7, 56, 58, 67),
}
"""API keys by module of `client_requests`. `broker_api` answers ApiVersions (18) itself."""


class ApiBroker(Protocol):
    """A broker, as far as the modules of the table take parts from it."""

    @property
    def serving_broker(self) -> ServingBroker: ...
    @property
    def metadata_api(self) -> ClientApi: ...
    @property
    def controller(self) -> KafkaController: ...
    @property
    def admin(self) -> AdminHandlers: ...
    @property
    def entity_configs(self) -> EntityConfigs: ...
    @property
    def described_configs(self) -> DescribedConfigs: ...
    @property
    def tokens(self) -> DelegationTokens: ...
    @property
    def log_dirs(self) -> LogDirs: ...
    @property
    def log_dir_moves(self) -> LogDirMoves: ...
    @property
    def groups(self) -> GroupCoordinator: ...
    @property
    def group_offsets(self) -> GroupOffsetStore: ...
    @property
    def transactions(self) -> TransactionCoordinator: ...
    @property
    def markers(self) -> TransactionMarkers: ...
    @property
    def verification(self) -> TransactionVerification: ...
    @property
    def producing(self) -> Producing: ...
    @property
    def producer_ids(self) -> ProducerIds: ...
    @property
    def login_mechanisms(self) -> Sequence[str]:
        """The SASL mechanisms that are enabled."""

    @property
    def serve_between_brokers(self) -> Callable[[object, Respond], None]:
        """Serves a request between brokers."""

    def create_on_demand(self, topic: str) -> Coroutine[Future[Any], None, object]:
        """Create an internal topic that a client needs."""

    def is_broker(self, broker: int) -> bool:
        """Return whether the cluster has a broker with an id."""

    def partitions_of_internal(self, topic: str) -> int:
        """Return how many partitions an internal topic has, or will have."""


def handlers_of(broker: ApiBroker) -> dict[int, Handler]:
    """Return the handlers of all APIs of a broker, by API key."""
    found: dict[int, Handler] = {}
    for module, keys in APIS.items():
        made = _on_first_request(module, keys, broker)
        assert not made.keys() & found.keys(), f"two modules handle one of {keys}"
        found |= made
    return found


def _on_first_request(module: str, keys: Sequence[int], broker: ApiBroker) -> dict[int, Handler]:
    """Return handlers that import their module when the first request of one of them arrives."""

    @cache
    def made() -> dict[int, Handler]:
        handlers: dict[int, Handler] = import_module(f"{__package__}.{module}").handlers(broker)
        assert handlers.keys() == set(keys), f"{module} has handlers of {list(handlers)}"
        return handlers

    def serve(key: int, context: Context, request: Any, answer: Answer) -> None:
        made()[key](context, request, answer)

    return {key: partial(serve, key) for key in keys}
