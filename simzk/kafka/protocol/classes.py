"""Classes of messages and their structs, made from schemas.

Rules of the module:
  - each class has `__slots__`, one per field, and an `__init__` with a keyword argument per field;
  - a class is made once; `messages.NAME` is the same object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.kafka.protocol.schema import message_name, message_schema
from simzk.kafka.protocol.structs import Message, Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.protocol.schema import MessageSchema, StructSchema

_MODULE = "simzk.kafka.protocol.messages"


def _constructor_text(name: str, struct: StructSchema) -> str:
    """Return the source of a class's `__init__`; the classes of its structs are global names."""
    parameters, lines = [], []
    for field in struct.fields:
        if field.struct is not None and not field.is_array and field.nullable.high < 0:
            made = f"C_{field.struct.name}() if {field.attribute} is None else {field.attribute}"
            parameters.append(f"{field.attribute}=None")
            lines.append(f"    self.{field.attribute} = {made}")
        else:
            parameters.append(f"{field.attribute}={field.default!r}")
            lines.append(f"    self.{field.attribute} = {field.attribute}")
    lines.append("    self.unknown_tags = unknown_tags")
    return "\n".join([f"def init_{name}(self, *, {', '.join([*parameters, 'unknown_tags=None'])}):", *lines])


def _made(schema: MessageSchema) -> type[Message]:
    structs = {schema.name: schema.root, **schema.structs}
    names: dict[str, object] = {}
    exec("\n".join(_constructor_text(name, struct) for name, struct in structs.items()), names)
    for name, struct in structs.items():
        is_message = name == schema.name
        members: dict[str, object] = {
            "__slots__": tuple(field.attribute for field in struct.fields),
            "__init__": names[f"init_{name}"],
            "__module__": _MODULE,
            "__qualname__": name if is_message else f"{schema.name}.{name}",
            "SCHEMA": struct,
            "MESSAGE": schema,
        }
        names[f"C_{name}"] = type(name, (Message if is_message else Struct,), members)
    made = names[f"C_{schema.name}"]
    assert isinstance(made, type)
    assert issubclass(made, Message)
    for name in schema.structs:
        setattr(made, name, names[f"C_{name}"])
    return made


_classes: dict[str, type[Message]] = {}


def message_class(name: str) -> type[Message]:
    """Return the class of a message; KeyError if Kafka has no message of this name.

    >>> message_class("MetadataRequest").MESSAGE.api_key
    3
    """
    found = _classes.get(name)
    # Two threads may make a class at once: setdefault gives both the same one.
    return found if found is not None else _classes.setdefault(name, _made(message_schema(name)))


def struct_classes(kind: type[Struct]) -> Mapping[str, type[Struct]]:
    """Return the classes of a message and all its structs by name; `kind` is any of them.

    >>> list(struct_classes(message_class("MetadataRequest")))
    ['MetadataRequest', 'MetadataRequestTopic']
    """
    schema = kind.MESSAGE
    message = message_class(schema.name)
    assert message.MESSAGE is schema, f"{schema.name} has two classes"
    return {schema.name: message, **{name: getattr(message, name) for name in schema.structs}}


def request_class(api_key: int) -> type[Message] | None:
    """Return the class of the requests of an API key, None if it is unknown."""
    name = message_name("request", api_key)
    return None if name is None else message_class(name)


def response_class(api_key: int) -> type[Message] | None:
    """Return the class of the responses of an API key, None if it is unknown."""
    name = message_name("response", api_key)
    return None if name is None else message_class(name)
