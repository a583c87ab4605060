"""DescribeClientQuotas and AlterClientQuotas (KIP-546; addresses KIP-612).

Rules of this module (ZkAdminManager; recorded 2.8 to 3.9):
  - quotas are configurations: of a user in `/config/users/U`, of a client id in `/config/clients/C`, of both in
    `/config/users/U/clients/C`, of an address in `/config/ips/A`; `<default>` is any other. They have no effect;
  - any broker describes and alters what is in ZooKeeper;
  - each entry of a request succeeds or fails by itself. They are answered in the order of Scala's map of them, their
    components in that of a Java map;
  - a filter without a component for a type of entity matches entities of any name of it, or only those without one if
    it is strict; a strict one without components matches none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from simzk.errors import ZnodeError
from simzk.jvm.hash_codes import java_map_hash, signed_32, string_hash
from simzk.jvm.hash_map import hash_map_order
from simzk.jvm.scala_collections import immutable_order
from simzk.kafka.broker.configs import is_address
from simzk.kafka.client_requests.handlers import Answer, ClientApi, Context, Handler
from simzk.kafka.metadata.plane import MetadataRefusedError, MetadataUnavailableError
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.schemas.config import sanitize

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simzk.kafka.broker.configs import EntityConfigs
    from simzk.kafka.client_requests.apis import ApiBroker

DESCRIBE_QUOTAS, ALTER_QUOTAS = 48, 49
USER, CLIENT, ADDRESS = "user", "client-id", "ip"
EXACT, DEFAULT, ANY = range(3)
"""How a component of a filter matches."""
_OF_CLIENTS = {
    "producer_byte_rate": "LONG",
    "consumer_byte_rate": "LONG",
    "request_percentage": "DOUBLE",
    "controller_mutation_rate": "DOUBLE",
}
_OF_ADDRESSES = {"connection_creation_rate": "INT"}
"""Quotas with the types of their values."""
_EPSILON = 1e-6
_FOLDERS = {USER: "users", CLIENT: "clients", ADDRESS: "ips"}

Entity = dict[str, str | None]
"""Names by type of entity; None is the default."""
EntityKey = tuple[tuple[str, str | None], ...]
"""An entity as a key of a map."""
Found = tuple[Entity, dict[str, float]]
"""An entity and its quotas."""
Component = DescribeClientQuotasRequest.ComponentData


class QuotaError(Exception):
    """A request, or an entry of one, that is invalid."""

    def __init__(self, code: ErrorCode, text: str | None) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def handlers(broker: ApiBroker) -> dict[int, Handler]:
    """Return the handlers of a broker, by API key."""
    return QuotasApi(broker.serving_broker, broker.entity_configs).handlers


@dataclass(eq=False)
class QuotasApi(ClientApi):
    """Quotas for clients of one broker.

    Args:
        written: writes configurations.
    """

    written: EntityConfigs

    @property
    def handlers(self) -> dict[int, Handler]:
        return {DESCRIBE_QUOTAS: self.serve_describe, ALTER_QUOTAS: self.broker.waiting(self._alter, "alter quotas")}

    @property
    def _types(self) -> Sequence[str]:
        """Types of entities that the release knows."""
        return [kind for kind, folder in _FOLDERS.items() if folder in self.broker.version.configs.entity_types]

    # -- DescribeClientQuotas

    def serve_describe(self, context: Context, request: DescribeClientQuotasRequest, answer: Answer) -> None:
        """Describe the quotas of the entities that match a filter."""
        if not self.broker.allows_on_cluster("DescribeConfigs", context.principal):
            answer(_undescribed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
            return
        self.broker.spawn(self._describe(request, answer), "describe quotas")

    async def _describe(self, request: DescribeClientQuotasRequest, answer: Answer) -> None:
        try:
            filters = self._filters(request.components)
            found = [one for one in await self._all() if _matches(one[0], filters, strict=request.strict)]
        except QuotaError as problem:
            answer(_undescribed(problem.code, problem.text))
            return
        except (MetadataUnavailableError, ZnodeError) as problem:
            answer(_undescribed(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem)))
            return
        part, quota = DescribeClientQuotasResponse.EntityData, DescribeClientQuotasResponse.ValueData
        entries = [
            DescribeClientQuotasResponse.EntryData(
                entity=[part(entity_type=kind, entity_name=name) for kind, name in entity.items()],
                values=[quota(key=key, value=value) for key, value in values.items()],
            )
            for entity, values in found
        ]
        answer(DescribeClientQuotasResponse(error_message="", entries=entries))

    def _filters(self, components: Sequence[Component]) -> dict[str, Component]:
        """Return the components by type of entity.

        Raises:
            QuotaError: the filter is invalid.
        """
        filters: dict[str, Component] = {}
        kinds = [(one.match_type, one.match) for one in components]
        if any(not EXACT <= kind <= ANY or (kind == EXACT and name is None) for kind, name in kinds):
            raise QuotaError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        for one in components:
            kind = one.entity_type
            if not kind:
                raise QuotaError(ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type")
            if kind not in self._types:
                raise QuotaError(ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{kind}' not supported")
            if kind in filters:
                name = "client" if kind == CLIENT else kind
                raise QuotaError(ErrorCode.INVALID_REQUEST, f"Duplicate {name} filter component entity type")
            filters[kind] = one
        if ADDRESS in filters and len(filters) > 1:
            text = (
                "Invalid entity filter component combination, IP filter component should not be used with user or "
                "clientId filter component."
            )
            raise QuotaError(ErrorCode.INVALID_REQUEST, text)
        return filters

    async def _all(self) -> list[Found]:
        """Return all quotas."""
        found = []
        for user in await self._names("users"):
            found.append(await self._read({USER: user}))
            found += [
                await self._read({USER: user, CLIENT: client})
                for client in await self._names(f"users/{_in_path(user)}/clients")
            ]
        found += [await self._read({CLIENT: client}) for client in await self._names("clients")]
        if ADDRESS in self._types:
            found += [await self._read({ADDRESS: address}) for address in await self._names("ips")]
        return [(entity, values) for entity, values in found if values]

    async def _names(self, parent: str) -> list[str | None]:
        """Return the names of the entities below a path, None for the default."""
        names = await self.broker.entities.entity_names(parent)
        return [None if name == paths.DEFAULT_ENTITY else unquote(name) for name in names]

    async def _read(self, entity: Entity) -> Found:
        values = await self.broker.entities.entity_config(_path(entity))
        known = _OF_ADDRESSES if ADDRESS in entity else _OF_CLIENTS
        return entity, {key: _number(value) for key, value in values.items() if key in known}

    # -- AlterClientQuotas

    async def _alter(self, context: Context, request: AlterClientQuotasRequest, answer: Answer) -> None:
        if not self.broker.allows_on_cluster("AlterConfigs", context.principal):
            denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None
            named = [[(one.entity_type, one.entity_name) for one in entry.entity] for entry in request.entries]
            answer(AlterClientQuotasResponse(entries=[_altered(names, *denied) for names in named]))
            return
        results: dict[EntityKey, tuple[ErrorCode, str | None]] = {}
        for entry in request.entries:
            entity = _in_map_order({one.entity_type: one.entity_name for one in entry.entity})
            code, text = ErrorCode.NONE, None
            try:
                await self._alter_one(entity, entry.ops, validate_only=request.validate_only)
            except QuotaError as problem:
                code, text = problem.code, problem.text
            except (MetadataUnavailableError, ZnodeError, MetadataRefusedError) as problem:
                code, text = ErrorCode.UNKNOWN_SERVER_ERROR, str(problem)
            results[tuple(entity.items())] = code, text
        order = immutable_order(results, self.broker.version.orders.scala, _entity_hash)
        answer(AlterClientQuotasResponse(entries=[_altered(entity, *results[entity]) for entity in order]))

    async def _alter_one(
        self, entity: Entity, changes: Sequence[AlterClientQuotasRequest.OpData], *, validate_only: bool
    ) -> None:
        """Alter the quotas of one entity.

        Raises:
            QuotaError: the entity, a key or a value is invalid.
        """
        if (problem := self._entity_problem(entity)) is not None:
            raise QuotaError(ErrorCode.INVALID_REQUEST, problem)
        known = _OF_ADDRESSES if ADDRESS in entity else _OF_CLIENTS
        path = _path(entity)
        values = dict(await self.broker.entities.entity_config(path))
        for change in changes:
            if change.remove:
                values.pop(change.key, None)
            elif change.key not in known:
                raise QuotaError(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {change.key}")
            elif known[change.key] == "DOUBLE":
                values[change.key] = _java_double(change.value)
            elif (whole := _whole(change.value)) is None:
                text = f"Configuration {change.key} must be a {known[change.key]} value"
                raise QuotaError(ErrorCode.INVALID_REQUEST, text)
            else:
                values[change.key] = str(whole)
        if not validate_only:
            await self.written.replace(path, values)

    def _entity_problem(self, entity: Mapping[str, str | None]) -> str | None:
        """Return why an entity is invalid; None if it is not."""
        if not entity:
            return "Invalid empty client quota entity"
        for kind, name in entity.items():
            if kind not in self._types:
                return f"Unhandled client quota entity type: {kind}"
            if name == "":
                return f"Empty {kind} not supported"
        if ADDRESS not in entity:
            return None
        if len(entity) > 1:
            return "Invalid quota entity combination, IP entity should not be used with user/client ID entity."
        address = entity[ADDRESS]
        return None if address is None or is_address(address) else f"{address} is not a valid IP or resolvable host."


def _in_map_order(entity: Entity) -> Entity:
    """Return the components of an entity in the order of the map that AlterClientQuotasRequest puts them into.

    >>> _in_map_order({"user": "alice", "client-id": "app"})
    {'client-id': 'app', 'user': 'alice'}
    """
    capacity = 1 << max(len(entity) - 1, 0).bit_length()
    return {kind: entity[kind] for kind in hash_map_order(entity, capacity)}


def _entity_hash(entity: EntityKey) -> int:
    """Return the hash code of a ClientQuotaEntity."""
    names = ((string_hash(kind), 0 if name is None else string_hash(name)) for kind, name in entity)
    return signed_32(31 + java_map_hash(names))


def _altered(
    entity: Sequence[tuple[str, str | None]], code: ErrorCode, text: str | None
) -> AlterClientQuotasResponse.EntryData:
    kind = AlterClientQuotasResponse.EntityData
    named = [kind(entity_type=one, entity_name=name) for one, name in entity]
    return AlterClientQuotasResponse.EntryData(error_code=code, error_message=text, entity=named)


def _undescribed(code: ErrorCode, text: str | None) -> DescribeClientQuotasResponse:
    assert code != ErrorCode.NONE, "without an error there are entries"
    return DescribeClientQuotasResponse(error_code=code, error_message=text, entries=None)


def _number(text: str) -> float:
    """Return the value of a quota; not a number if others wrote something else."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _in_path(name: str | None) -> str:
    return paths.DEFAULT_ENTITY if name is None else sanitize(name)


def _path(entity: Mapping[str, str | None]) -> str:
    """Return the path of an entity below `/config`."""
    assert entity.keys() <= {USER, CLIENT} or entity.keys() == {ADDRESS}, f"{entity} has no path"
    return "/".join(f"{folder}/{_in_path(entity[kind])}" for kind, folder in _FOLDERS.items() if kind in entity)


def _matches(entity: Entity, filters: Mapping[str, Component], *, strict: bool) -> bool:
    """Return whether an entity matches a filter."""
    if strict and set(entity) != set(filters):
        return False
    return all(
        kind in entity and (one.match_type == ANY or entity[kind] == (None if one.match_type == DEFAULT else one.match))
        for kind, one in filters.items()
    )


def _whole(value: float) -> int | None:
    """Return a number as a whole one, as ZkAdminManager rounds; None if it is not whole.

    >>> _whole(2e9), _whole(1.5), _whole(-1.0), _whole(float("inf"))
    (2000000000, None, None, None)
    """
    if not math.isfinite(value):
        return None
    whole = int(value + _EPSILON)
    return whole if abs(whole - value) <= _EPSILON else None


def _java_double(value: float) -> str:
    """Return a number as Java writes a double.

    >>> _java_double(100.0), _java_double(2e9), _java_double(0.5)
    ('100.0', '2.0E9', '0.5')
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    texts = (f"{value:.{places}e}" for places in range(1, 17))
    mantissa, _, power = next((text for text in texts if float(text) == value), f"{value:.17e}").partition("e")
    return f"{mantissa}E{int(power)}"
