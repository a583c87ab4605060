"""Make the table of message definitions from Kafka's own: python -m tests.kafka.protocol.make_table JAR...

Writes `definitions.py` and `messages.pyi` of `simzk/kafka/protocol`. The definitions are JSON files in three jars of
release 3.9, which have every version since 0.8: kafka-clients (requests, responses, headers), kafka-group-coordinator
and kafka-transaction-coordinator (records of `__consumer_offsets` and `__transaction_state`). Facts are taken over:
names, types, versions, tags, defaults. Comments are not. This is a tool of developers beside the tests that compare the
table with the jars, because users of the package never need it.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simzk.kafka.protocol.schema import PRIMITIVES, Field, MessageSchema, StructSchema, parse_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PROTOCOL = Path(__file__).resolve().parents[3] / "simzk" / "kafka" / "protocol"
TABLE = PROTOCOL / "definitions.py"
STUB = PROTOCOL / "messages.pyi"
MADE_BY = "Made by `python -m tests.kafka.protocol.make_table`; do not edit."

NEW_COORDINATOR = re.compile(r"(Consumer|Share)Group\w*(Key|Value)")
"""Records of the group coordinator of KIP-848, which a cluster in ZooKeeper mode does not have."""
_KINDS = {"header": 0, "request": 1, "response": 2, "data": 3}
_PYTHON_TYPES = {
    "bool": "bool",
    "string": "str",
    "uuid": "str",
    "float64": "float",
    "bytes": "Bytes",
    "records": "Bytes",
}


def definitions_of(jar: Path) -> list[dict[str, Any]]:
    """Return the message definitions in a jar, in the order of the table."""
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"common/message/\w+\.json", name)]
        texts = [archive.read(name).decode() for name in names]
    found = [json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)) for text in texts]
    return [
        definition
        for definition in found
        if definition["type"] in _KINDS and not NEW_COORDINATOR.fullmatch(definition["name"])
    ]


def in_order(definitions: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return definitions in the order of the table: headers, requests and responses by API key, data."""
    return sorted(
        definitions,
        key=lambda one: (min(_KINDS[one["type"]] % 3, 1) if one["type"] != "data" else 2,
                         one.get("apiKey", -1), _KINDS[one["type"]], one["name"]),
    )  # fmt: skip


def _default(definition: dict[str, Any]) -> str:
    """Return the option for a default, empty if it is the default of its type."""
    default = definition.get("default", "")
    text = "null" if default is None else str(default).lower()
    kind = definition["type"]
    of_type = {"": True, "0": kind.lstrip("u").startswith(("int", "float")), "false": kind == "bool"}
    return "" if of_type.get(text, False) else f" default {text}"


def _field_lines(definition: dict[str, Any], indent: str) -> Iterator[str]:
    line = f"{indent}{definition['name']} {definition['type']} {definition['versions']}"
    if "nullableVersions" in definition:
        line += f" null {definition['nullableVersions']}"
    if "tag" in definition:
        line += f" tag {definition['tag']} {definition['taggedVersions']}"
    line += _default(definition)
    line += " ignorable" if definition.get("ignorable") else ""
    if "flexibleVersions" in definition:
        assert definition["flexibleVersions"] == "none", definition
        line += " inflexible"
    yield line
    for inner in definition.get("fields", []):
        yield from _field_lines(inner, indent + "  ")


def message_text(definition: dict[str, Any]) -> str:
    """Return the lines of a message in the table."""
    key = f" {definition['apiKey']}" if definition["type"] in ("request", "response") else ""
    flexible = definition.get("flexibleVersions", "none")
    lines = [f"{definition['type']}{key} {definition['name']} {definition['validVersions']} flexible {flexible}"]
    for inner in definition.get("fields", []):
        lines += _field_lines(inner, "  ")
    for struct in definition.get("commonStructs", []):
        lines.append(f"  struct {struct['name']}")
        for inner in struct["fields"]:
            lines += _field_lines(inner, "    ")
    return "\n".join(lines)


def table_text(definitions: Iterable[dict[str, Any]]) -> str:
    """Return the content of `definitions.py`."""
    messages = "\n".join(message_text(definition) for definition in in_order(definitions))
    return (
        f'"""Definitions of Kafka\'s messages in every version up to 3.9: names, types, versions, tags, defaults.\n\n'
        f"`schema.py` says how to read a line. {MADE_BY}\n"
        f'"""\n\nDEFINITIONS = """\n{messages}\n"""\n'
    )


def _annotation(field: Field, message: str) -> str:
    item = _PYTHON_TYPES.get(field.kind, "int") if field.kind in PRIMITIVES else f"{message}.{field.kind}"
    kind = f"Sequence[{item}]" if field.is_array else item
    is_optional = field.nullable.high >= 0 or (field.default is None and field.struct is None)
    return f"{kind} | None" if is_optional else kind


def _class_lines(name: str, base: str, struct: StructSchema, indent: str, message: str) -> list[str]:
    fields = [f"{indent}    {field.attribute}: {_annotation(field, message)} = ..." for field in struct.fields]
    tags = f"{indent}    unknown_tags: Mapping[int, bytes] | None = ..."
    return [f"{indent}class {name}({base}):", *fields, tags]


def stub_text(schemas: Iterable[MessageSchema]) -> str:
    """Return the content of `messages.pyi`: the types of what `messages.py` makes from the table."""
    lines = [
        "# Types of the classes that messages.py makes from the table.",
        f"# {MADE_BY}",
        "from collections.abc import Mapping, Sequence",
        "",
        "from simzk.kafka.protocol.structs import Bytes, Message, Struct",
        "",
    ]
    for schema in schemas:
        lines += _class_lines(schema.name, "Message", schema.root, "", schema.name)
        for struct in schema.structs.values():
            lines += ["", *_class_lines(struct.name, "Struct", struct, "    ", schema.name)]
        lines.append("")
    return "\n".join(lines)


def schemas_of(table: str) -> list[MessageSchema]:
    """Return the schemas of a table, in its order."""
    messages = table.partition('DEFINITIONS = """\n')[2].removesuffix('\n"""\n')
    return [parse_message(text) for text in re.split(r"\n(?=\S)", messages)]


def main(jars: list[str]) -> int:
    """Write the table and the types."""
    table = table_text(definition for jar in jars for definition in definitions_of(Path(jar)))
    TABLE.write_text(table)
    STUB.write_text(stub_text(schemas_of(table)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
