"""Page of the schema of scenario files: tables, steps and expectations with their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import NODEFAULT, inspect

from docs_site.markdown import arguments, code, description, page, table
from simzk.scenarios.actions import ACTIONS, Action
from simzk.scenarios.cluster_model import ClusterTable, Step
from simzk.scenarios.expectations import EXPECTATIONS, Expectation
from simzk.scenarios.reader import BugTable, ClientsTable, FaultsTable, ScenarioTable, TrafficTable

if TYPE_CHECKING:
    from collections.abc import Collection

_TABLES = (ScenarioTable, ClusterTable, FaultsTable, ClientsTable, TrafficTable, BugTable)


def scenarios_page() -> str:
    """Return the page of the schema."""
    common = {field.encode_name for field in msgspec.structs.fields(Expectation)} | {"action"}
    sections = [
        part
        for struct in _TABLES
        for part in (f"### {struct.__name__.removesuffix('Table')}", description(struct), _keys(struct))
    ]
    for heading, word, base, steps in (
        ("Actions", "action", Action, ACTIONS),
        ("Expectations", "expect", Expectation, EXPECTATIONS),
    ):
        sections += [f"## {heading}", description(base), "Keys of each:", _keys(base)]
        for name, step in steps.items():
            sections += [f'### {word} = "{name}"', description(step), _keys(step, without=common)]
    return page(
        "Scenario schema",
        "The keys of a scenario file. An unknown key is an error. [Scenarios](../scenarios.md) tells how to write one.",
        "## Tables",
        *sections,
    )


def _keys(struct: type[msgspec.Struct], without: Collection[str] = ()) -> str:
    """Return the table of the keys of a table of a file."""
    docs: dict[str, str] = {}
    for parent in reversed(struct.__mro__):
        docs |= arguments(parent) if issubclass(parent, Step) else {}
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    rows = [
        (code(field.encode_name), kind_in_words(field.type), _default(field), docs.get(field.name, ""))
        for field in info.fields
        if field.encode_name not in without
    ]
    if not rows:
        return "It has no keys of its own."
    headings = ["key", "value", "default", "meaning"]
    has_meanings = any(row[-1] for row in rows)
    return table(headings, rows) if has_meanings else table(headings[:-1], [row[:-1] for row in rows])


def _default(field: inspect.Field) -> str:
    if field.required:
        return "required"
    if field.default_factory is not NODEFAULT:
        return "none"
    return code(str(field.default).lower()) if field.default not in (None, "") else "none"


def kind_in_words(kind: inspect.Type) -> str:
    """Return the values of a key in words.

    >>> from typing import Annotated, Literal
    >>> kind_in_words(inspect.type_info(Annotated[int, msgspec.Meta(ge=0)] | None))
    'whole number from 0'
    >>> kind_in_words(inspect.type_info(dict[str, list[Literal["a", "b"]]]))
    'table of text to list of `a` or `b`'
    """
    match kind:
        case inspect.IntType(ge=low) if low is not None:
            return f"whole number from {low}"
        case inspect.IntType():
            return "whole number"
        case inspect.BoolType():
            return "true or false"
        case inspect.LiteralType(values=values):
            return " or ".join(map(code, values))
        case inspect.ListType(item_type=item):
            return f"list of {kind_in_words(item)}"
        case inspect.DictType(key_type=key, value_type=value):
            return f"table of {kind_in_words(key)} to {kind_in_words(value)}"
        case inspect.UnionType(types=types):
            present = [one for one in types if not isinstance(one, inspect.NoneType)]
            return " or ".join(map(kind_in_words, present))
        case inspect.StructType(cls=struct):
            return (
                f"a table, [{struct.__name__.removesuffix('Table')}](#{struct.__name__.removesuffix('Table').lower()})"
            )
        case inspect.AnyType() | inspect.CustomType():
            return "any value"
    return "text"
