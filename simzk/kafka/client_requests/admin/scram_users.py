"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554).

Rules of this module (ZkAdminManager; recorded 2.8 to 3.9):
  - credentials are in the user's configuration, `/config/users/NAME`, in the form of `schemas/scram.py`;
  - each broker describes what it reads from ZooKeeper; the controller's broker alone alters;
  - if one credential of a user is invalid, none of this user is altered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from simzk.errors import ZnodeError
from simzk.kafka.client_requests.handlers import Answer, ClientApi, Context, Handler
from simzk.kafka.metadata.plane import MetadataRefusedError, MetadataUnavailableError
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from simzk.kafka.security.scram import MECHANISMS as SCRAM_MECHANISMS
from simzk.kafka.security.scram import MIN_ITERATIONS, credential_of
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.schemas import scram
from simzk.kafka.zookeeper_mode.schemas.config import sanitize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.kafka.broker.configs import EntityConfigs
    from simzk.kafka.client_requests.apis import ApiBroker

DESCRIBE_SCRAM, ALTER_SCRAM = 50, 51
MECHANISMS = dict(enumerate(SCRAM_MECHANISMS, start=1))
"""Mechanisms by their number: SCRAM-SHA-256 is 1."""
MAX_ITERATIONS = 16384
SILENT_SINCE = (3, 0)
"""From this line on a client that may not describe users gets no answer (recorded with 3.4 and 3.9)."""

User = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
Altered = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
Alteration = (
    AlterUserScramCredentialsRequest.ScramCredentialDeletion | AlterUserScramCredentialsRequest.ScramCredentialUpsertion
)


def handlers(broker: ApiBroker) -> dict[int, Handler]:
    """Return the handlers of a broker, by API key."""
    return ScramUsersApi(broker.serving_broker, broker.entity_configs).handlers


@dataclass(eq=False)
class ScramUsersApi(ClientApi):
    """SCRAM credentials for clients of one broker.

    Args:
        written: writes configurations.
    """

    written: EntityConfigs

    @property
    def handlers(self) -> dict[int, Handler]:
        return {DESCRIBE_SCRAM: self.serve_describe, ALTER_SCRAM: self.broker.waiting(self._alter, "alter users")}

    # -- DescribeUserScramCredentials

    def serve_describe(self, context: Context, request: DescribeUserScramCredentialsRequest, answer: Answer) -> None:
        """Describe the credentials of some users, or of all that have one."""
        if not self.broker.allows_on_cluster("Describe", context.principal):
            if self.broker.version.number < SILENT_SINCE:
                code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                answer(DescribeUserScramCredentialsResponse(error_code=code, error_message=None))
            return
        self.broker.spawn(self._describe(request, answer), "describe users")

    async def _describe(self, request: DescribeUserScramCredentialsRequest, answer: Answer) -> None:
        names = [user.name for user in request.users or ()]
        try:
            if names:
                results = [await self._described(name, names.count(name)) for name in dict.fromkeys(names)]
            else:
                listed = await self.broker.entities.entity_names("users")
                users = [await self._described(unquote(name), 1) for name in listed]
                results = [user for user in users if user.credential_infos]
        except (MetadataUnavailableError, ZnodeError) as problem:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            answer(DescribeUserScramCredentialsResponse(error_code=code, error_message=str(problem)))
            return
        answer(DescribeUserScramCredentialsResponse(error_message="", results=results))

    async def _described(self, name: str, count: int) -> User:
        if count > 1:
            text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
            return User(user=name, error_code=ErrorCode.DUPLICATE_RESOURCE, error_message=text)
        values = await self.broker.entities.entity_config(f"users/{sanitize(name)}")
        found = [
            DescribeUserScramCredentialsResponse.CredentialInfo(
                mechanism=number,
                iterations=scram.decode(paths.config("users"), mechanism, values[mechanism]).iterations,
            )
            for number, mechanism in MECHANISMS.items()
            if mechanism in values
        ]
        if not found:
            text = f"Attempt to describe a user credential that does not exist: {name}"
            return User(user=name, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=text)
        return User(user=name, error_message="", credential_infos=found)

    # -- AlterUserScramCredentials

    async def _alter(self, context: Context, request: AlterUserScramCredentialsRequest, answer: Answer) -> None:
        by_user: dict[str, list[Alteration]] = {}
        alterations: list[Alteration] = [*request.deletions, *request.upsertions]
        for one in alterations:
            by_user.setdefault(one.name, []).append(one)
        results = []
        for name, of_user in by_user.items():
            try:
                code, text = await self._alter_user(context, name, of_user)
            except MetadataUnavailableError:
                code, text = ErrorCode.NOT_CONTROLLER, ""
            except (ZnodeError, MetadataRefusedError) as problem:
                code, text = ErrorCode.UNKNOWN_SERVER_ERROR, str(problem)
            results.append(Altered(user=name, error_code=code, error_message=text))
        answer(AlterUserScramCredentialsResponse(results=results))

    async def _alter_user(
        self, context: Context, name: str, alterations: Sequence[Alteration]
    ) -> tuple[ErrorCode, str | None]:
        assert all(one.name == name for one in alterations), f"not all are of {name}"
        if not self.broker.allows_on_cluster("Alter", context.principal):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None
        if not self.broker.is_controller():
            return ErrorCode.NOT_CONTROLLER, None
        if (problem := _problem(name, alterations)) is not None:
            return problem
        entity = f"users/{sanitize(name)}"
        values = dict(await self.broker.entities.entity_config(entity))
        for one in alterations:
            mechanism = MECHANISMS[one.mechanism]
            if isinstance(one, AlterUserScramCredentialsRequest.ScramCredentialUpsertion):
                stored = credential_of(mechanism, bytes(one.salted_password), bytes(one.salt), one.iterations)
                values[mechanism] = scram.encode(stored)
            elif values.pop(mechanism, None) is None:
                return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        await self.written.replace(entity, values)
        return ErrorCode.NONE, ""


def _problem(name: str, alterations: Sequence[Alteration]) -> tuple[ErrorCode, str] | None:
    """Return why the alterations of one user are invalid; None if they are not."""
    if not name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    mechanisms = [one.mechanism for one in alterations]
    if len(dict.fromkeys(mechanisms)) != len(mechanisms):
        return ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
    if any(mechanism not in MECHANISMS for mechanism in mechanisms):
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    for one in alterations:
        if isinstance(one, AlterUserScramCredentialsRequest.ScramCredentialUpsertion):
            if one.iterations < MIN_ITERATIONS:
                return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
            if one.iterations > MAX_ITERATIONS:
                return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    return None
