"""Classes of all messages, such as `messages.MetadataRequest`, made from the table on first use.

Rules of the module:
  - a class belongs to a message of the table, and has its structs as attributes, as Kafka's own classes do:
    `MetadataRequest.MetadataRequestTopic`;
  - the types of the fields are in `messages.pyi`.

>>> from simzk.kafka.protocol.messages import MetadataRequest
>>> MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="orders")]).allow_auto_topic_creation
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.kafka.protocol.classes import message_class
from simzk.kafka.protocol.schema import message_names

if TYPE_CHECKING:
    from simzk.kafka.protocol.structs import Message


def __getattr__(name: str) -> type[Message]:
    if name not in message_names():
        raise AttributeError(f"Kafka has no message {name}")
    return message_class(name)


def __dir__() -> list[str]:
    return message_names()
