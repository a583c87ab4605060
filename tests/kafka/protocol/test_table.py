"""The table of messages is consistent, and the types in `messages.pyi` equal it.

`tests/conformance/real_kafka/test_real_messages.py` compares the table with Kafka's jars.
"""

from __future__ import annotations

import pytest

from simzk.kafka.protocol.classes import message_class, request_class, response_class
from simzk.kafka.protocol.schema import PRIMITIVES, Versions, message_names, message_schema
from tests.kafka.protocol.make_table import STUB, TABLE, schemas_of, stub_text


def test_the_types_are_made_from_the_table() -> None:
    assert stub_text(schemas_of(TABLE.read_text())) == STUB.read_text()


def test_every_message_is_consistent() -> None:
    assert len(message_names()) == 192
    for name in message_names():
        schema = message_schema(name)
        assert schema.versions.low == 0 or schema.kind == "data"
        structs = [schema.root, *schema.structs.values()]
        for struct in structs:
            assert struct.fields or struct is schema.root, (name, struct.name)
            names = [field.attribute for field in struct.fields]
            assert len(set(names)) == len(names)
            for field in struct.fields:
                assert field.kind in PRIMITIVES or field.struct in structs, (name, field.name)
                assert (field.tag >= 0) == (field.tagged.high >= 0)
                is_nullable_struct = field.struct is not None and not field.is_array and field.nullable.high >= 0
                assert not is_nullable_struct or field.tag < 0, "Kafka encodes it in another way"


def test_api_keys_have_a_request_and_a_response() -> None:
    for api_key in range(88):
        request, response = request_class(api_key), response_class(api_key)
        assert request is not None
        assert response is not None
        assert request.MESSAGE.versions == response.MESSAGE.versions
    assert request_class(88) is response_class(-1) is None


def test_a_class_is_made_once() -> None:
    assert message_class("FetchRequest") is request_class(1)
    with pytest.raises(KeyError):
        message_class("NoRequest")


@pytest.mark.parametrize("text", ["none", "0+", "3", "1-4"])
def test_ranges_of_versions_are_read_and_written(text: str) -> None:
    assert str(Versions.parse(text)) == text
