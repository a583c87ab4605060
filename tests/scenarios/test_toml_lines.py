"""Lines of keys, which tomllib does not tell."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from simzk.scenarios.source import KeyPath, key_lines, line_of

TEXT = '''\
title = "a = 1"            # a comment
why = """
broker = 1
[not.a.table]
"""
"quoted key" = 1
dotted.inner.key = 2

[cluster]   # with a comment
racks = { 1 = "a", 2 = "b" }
list = [
  1,
  2,
]
text = \'\'\'one line\'\'\'
after = 3

[[step]]
action = "kill"

[step.more]
depth = 1

[[step]]
action = "wait"

[[step]]
[step.more]
depth = 2
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("title",), 1),
        (("why",), 2),
        (("quoted key",), 6),
        (("dotted", "inner", "key"), 7),
        (("cluster",), 9),
        (("cluster", "racks"), 10),
        (("cluster", "racks", "2"), 10),
        (("cluster", "list", 1), 11),
        (("cluster", "text"), 15),
        (("cluster", "after"), 16),
        (("step",), 18),
        (("step", 0), 18),
        (("step", 0, "action"), 19),
        (("step", 0, "more", "depth"), 22),
        (("step", 1, "action"), 25),
        (("step", 1, "missing"), 24),
        (("step", 2, "more", "depth"), 29),
        (("nothing",), 1),
    ],
)
def test_lines_are_found(path: KeyPath, line: int) -> None:
    assert line_of(TEXT, path) == line


def values(document: object, path: KeyPath = ()) -> dict[KeyPath, object]:
    found: dict[KeyPath, object] = {path: document}
    if isinstance(document, dict):
        for key, value in document.items():
            found |= values(value, (*path, key))
    elif isinstance(document, list):
        for index, value in enumerate(document):
            found |= values(value, (*path, index))
    return found


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[2] / "scenarios").glob("*.toml")), ids=lambda p: p.stem)
def test_what_is_found_in_a_shipped_file_is_there(path: Path) -> None:
    """Against tomllib: each path found is one of the document, and its line names its key."""
    text = path.read_text(encoding="utf-8")
    known = values(tomllib.loads(text))
    lines = text.splitlines()
    found = key_lines(text)
    for key_path, line in found.items():
        assert key_path in known
        key = next(part for part in reversed(key_path) if isinstance(part, str))
        assert key in lines[line - 1]
    steps = [key_path for key_path in known if len(key_path) == 3 and key_path[0] == "step"]
    assert all(key_path in found for key_path in steps)
