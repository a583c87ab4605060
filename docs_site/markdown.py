"""Markdown made of tables and docstrings."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Example|Yields):", flags=re.MULTILINE)
_FLOWCHART = re.compile(r"^```mermaid\nflowchart BT\n(.*?)\n```$", flags=re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"^    (\S[^:]*): (.*(?:\n {8}.*)*)", flags=re.MULTILINE)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""Return a table.

    >>> print(table(["a", "b"], [["1", "x | y"]]))
    | a | b |
    | --- | --- |
    | 1 | x \| y |
    """
    lines = [headings, ["---"] * len(headings)]
    lines += [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def edges_as_table(markdown: str) -> str:
    """Return the text of a page with each Mermaid flowchart as a table: drawing it would load a script from elsewhere.

    >>> print(edges_as_table("```mermaid\\nflowchart BT\\n    a\\n    b --> a\\n    c --> a\\n    c --> b\\n```"))
    | package | imports |
    | --- | --- |
    | `a` |  |
    | `b` | `a` |
    | `c` | `a`, `b` |
    """
    return _FLOWCHART.sub(lambda chart: _edges(chart[1]), markdown)


def _edges(chart: str) -> str:
    edges: dict[str, list[str]] = {}
    for line in chart.splitlines():
        start, _, end = line.strip().partition(" --> ")
        edges.setdefault(start, []).extend([end] if end else [])
    return table(["package", "imports"], [(code(start), ", ".join(map(code, ends))) for start, ends in edges.items()])


def page(title: str, introduction: str, *sections: str) -> str:
    """Return a page: its title, what it lists, and its sections."""
    return "\n\n".join([f"# {title}", introduction, *sections]) + "\n"


def code(text: object) -> str:
    """Return a text as code; nothing for an empty text.

    >>> code("a"), code("")
    ('`a`', '')
    """
    return f"`{text}`" if str(text) else ""


def description(documented: object) -> str:
    """Return the description in a docstring, without examples, arguments and results, on one line.

    >>> description(code)
    'Return a text as code; nothing for an empty text.'
    """
    text = inspect.getdoc(documented) or ""
    return " ".join(_SECTION.split(text.partition(">>>")[0])[0].split())


def arguments(documented: object) -> dict[str, str]:
    """Return the description of each argument or attribute in a docstring.

    >>> from simzk.kafka.releases.versions import kafka_version
    >>> list(arguments(kafka_version))
    ['name']
    """
    text = inspect.getdoc(documented) or ""
    found: dict[str, str] = {}
    parts = _SECTION.split(text)
    for heading, section in zip(parts[1::2], parts[2::2], strict=True):
        if heading in ("Args", "Attributes"):
            for names, what in _ITEM.findall(section):
                found |= dict.fromkeys(names.split(", "), " ".join(what.split()))
    return found


def attribute_docs(documented: type) -> dict[str, str]:
    """Return the docstring below each attribute of a class, on one line.

    >>> from simzk.kafka.releases.profile import ClientRules
    >>> attribute_docs(ClientRules)["has_broker_epochs"]
    'A registration has an epoch, its czxid, and a bounced broker is noticed (KIP-380, KAFKA-7235).'
    """
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(documented))).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for statement, below in zip(body.body, body.body[1:], strict=False):
        match statement, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
    return found
