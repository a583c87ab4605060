"""Table of operations against the reference (§1.5, §4) and the documented names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simzk.zookeeper.operations import OPERATIONS, Kind, Operation

DOCS = Path(__file__).resolve().parents[2] / "docs"
REFERENCE = (DOCS / "reference" / "zookeeper.md").read_text()
SAME_AS_ABOVE = re.compile(r"same\b")
PERMISSION = re.compile(r"-102 (?:unless )?\W*(READ|WRITE|CREATE|DELETE|ADMIN)(?:\W+or\W+(ADMIN))?")
BITS = {"READ": 1, "WRITE": 2, "CREATE": 4, "DELETE": 8, "ADMIN": 16}


def table(section: str) -> list[list[str]]:
    """The first table of a section, its head left out, as cells."""
    lines = REFERENCE.partition(f"\n{section}")[2].partition("\n|")[2].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def documented() -> dict[int, dict[str, str]]:
    """The rows of the table by opcode: name, whether it takes a zxid, its errors."""
    rows, errors = {}, ""
    for cells in table("## 1.5 "):
        errors = errors if SAME_AS_ABOVE.match(cells[5]) else cells[5]
        rows[int(cells[1])] = {"name": cells[0], "write": cells[2], "errors": errors}
    return rows


ROWS = documented()


def test_each_request_has_its_row_and_no_row_is_of_something_else() -> None:
    assert ROWS.keys() == {operation.opcode for operation in OPERATIONS}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.request.__name__)
def test_a_row_says_name_kind_and_permission(operation: Operation) -> None:
    row = ROWS[operation.opcode]
    assert row["name"].lower() == operation.request.__name__.lower()
    assert (row["write"] == "W") == operation.is_write
    found = PERMISSION.search(row["errors"])
    assert sum(BITS[word] for word in (found.groups() if found else ()) if word) == operation.permission


@pytest.mark.parametrize(
    "operation",
    [operation for operation in OPERATIONS if operation.kind is not Kind.SESSION],
    ids=lambda operation: operation.request.__name__,
)
def test_the_table_of_permissions_says_the_same(operation: Operation) -> None:
    name = operation.request.__name__.lower()
    reported = [
        need
        for names, need in table("# 4. ACL and auth")
        for pattern in names.lower().split(", ")
        if re.fullmatch(pattern.replace("*", r"\w*"), name)
    ]
    if operation.permission:
        (need,) = reported
        found = re.match(r"(\w+)(?: or (\w+))?(?: @ \W*(\w+)(?:/(\w+))?)?", need)
        assert found is not None
        assert sum(BITS[word] for word in found.groups()[:2] if word) == operation.permission
        assert (found[4] or found[3] or "node") == operation.place
    else:
        assert reported in ([], ["none"])


def test_operations_that_faults_must_name_are_documented() -> None:
    text = (DOCS / "faults.md").read_text()
    assert all(f'`"{operation.name}"`' in text for operation in OPERATIONS if operation.is_implicit)
