"""The reference's table of requests (§1.5) and the table of operations say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simzk.wire.operations import BY_OPCODE, OPERATIONS, Operation

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "zookeeper.md"
# What stands in the reference and is no request of its own: it is sent in a multi, or by no client.
NO_REQUESTS = {"check": 13, "createSession": -10}
SAME_AS_ABOVE = re.compile(r"same\b")
PERMISSION = re.compile(r"-102 (?:unless )?\W*(READ|WRITE|CREATE|DELETE|ADMIN)(?:\W+or\W+(ADMIN))?")


def documented() -> dict[int, dict[str, str]]:
    """The rows of the table by opcode: name, whether it takes a zxid, its errors."""
    section = REFERENCE.read_text().partition("\n## 1.5 ")[2].partition("\n## ")[0]
    lines = (line for line in section.splitlines() if line.startswith("| "))
    rows, errors = {}, ""
    for cells in [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines][1:]:
        errors = errors if SAME_AS_ABOVE.match(cells[5]) else cells[5]
        rows[int(cells[1])] = {"name": cells[0], "write": cells[2], "errors": errors}
    return rows


ROWS = documented()


def test_each_request_has_its_row_and_no_row_is_of_something_else() -> None:
    others = {number: name for name, number in NO_REQUESTS.items()}
    assert ROWS.keys() == BY_OPCODE.keys() | others.keys()
    assert {number: row["name"] for number, row in ROWS.items() if number in others} == others


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.request.__name__)
def test_a_row_says_name_kind_and_permission(operation: Operation) -> None:
    row = ROWS[operation.opcode]
    assert row["name"].lower() == operation.request.__name__.lower()
    assert (row["write"] == "W") == operation.is_write
    if operation.reply is None:
        return  # what a multi needs is what its operations need
    found = PERMISSION.search(row["errors"])
    words = [word for word in found.groups() if word] if found else []
    assert words == re.findall(r"[A-Z]{4,}", operation.permission)
