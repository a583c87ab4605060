"""Events of the history for requests of clients that a broker refuses: changes of topics, and what ACLs forbid.

Rules of this module:
  - of the APIs that change topics and configurations each refused item is an event; of all others only what an
    authorizer denies, once for each client, API and name, because clients ask again and again (Kafka logs denials too:
    kafka.authorizer.logger);
  - an error that only asks the client to try again elsewhere or later is no refusal.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from simzk.kafka.client_requests.broker_faults import Silence
    from simzk.kafka.client_requests.handlers import Answer, Context, Handler
    from simzk.kafka.protocol.structs import Message

REFUSED, DENIED = "refused", "denied"
"""What such an event says."""
CHANGES: Final = frozenset({19, 20, 37, 33, 44})
"""APIs of which each refused item is an event: CreateTopics, DeleteTopics, CreatePartitions, AlterConfigs (both)."""
DENIALS: Final = frozenset(code for code in ErrorCode if code.name.endswith("_AUTHORIZATION_FAILED"))
_TRANSIENT: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)
_NAMES: Final = ("name", "resource_name", "topic_name", "topic", "group_id", "transactional_id", "key")
_SHOWN: Final = 200
"""Longest text of a client in an event."""


def noting_refusals(
    handlers: Mapping[int, Handler], record: Callable[[str, str, str, str], None], *, has_authorizer: bool
) -> dict[int, Handler]:
    """Return handlers, by API key, of which the answers are looked at.

    Args:
        handlers: the handlers.
        record: records an event: what, subject, state before, reason.
        has_authorizer: whether ACLs may forbid something.
    """
    noted: set[tuple[str, ...]] = set()
    watched = handlers if has_authorizer else CHANGES & handlers.keys()
    return {**handlers, **{key: partial(_serve, handlers[key], record, noted) for key in watched}}


def _serve(
    handler: Handler,
    record: Callable[[str, str, str, str], None],
    noted: set[tuple[str, ...]],
    context: Context,
    request: Message,
    answer: Answer,
) -> None:
    api = request.MESSAGE.name.removesuffix("Request")
    changes = request.MESSAGE.api_key in CHANGES

    def look(response: Message | Silence | None) -> None:
        if isinstance(response, Struct):
            for name, code, text in _errors(response):
                if code in DENIALS:
                    denial = (context.principal, api, name, code.name)
                    if denial not in noted:
                        noted.add(denial)
                        record(DENIED, name, "", f"{api} of {context.principal[:_SHOWN]}: {code.name}")
                elif changes and code not in _TRANSIENT:
                    record(REFUSED, name, "", f"{api}: {code.name} {text}".rstrip())
        answer(response)

    handler(context, request, look)


def _errors(found: Struct, name: str = "") -> Iterator[tuple[str, ErrorCode, str]]:
    """Yield the errors of a response: the name that each is about, the code and the message."""
    names = (getattr(found, field, None) for field in _NAMES)
    name = next((one for one in names if isinstance(one, str) and one), name)
    code = getattr(found, "error_code", ErrorCode.NONE)
    if code != ErrorCode.NONE:
        message = getattr(found, "error_message", None) or ""
        yield name[:_SHOWN], ErrorCode(code), message[:_SHOWN]
    for field in found.__slots__:
        value = getattr(found, field)
        if isinstance(value, list):
            for item in value:
                if isinstance(item, Struct):
                    yield from _errors(item, name)
