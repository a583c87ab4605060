"""The text of a scenario file, and errors that point into it: file, line, key, and what would be right."""

from __future__ import annotations

import difflib
import re
import tomllib
from typing import TYPE_CHECKING, NoReturn, TypeVar

import msgspec

from simzk.errors import ScenarioError
from simzk.scenarios.toml_lines import KeyPath, line_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

S = TypeVar("S", bound=msgspec.Struct)

_WORDS = {
    "int": "a whole number",
    "str": "text in quotes",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}
_WORDS |= {"float": "a number", "null": "nothing", "datetime": "a date", "date": "a date", "time": "a time of day"}
_AT = re.compile(r"(.*) - at `\$(.*)`$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_WRONG_TYPE = re.compile(r"Expected `(.*)`, got `(.*)`")
_PATH_PART = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")


class Source:
    """A scenario file as read.

    Args:
        path: as the user named it; errors repeat it so.

    Raises:
        ScenarioError: there is no such file, or it is no text, or no TOML.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ScenarioError(f"cannot read it: {error.strerror}", where=str(path), right="a scenario file") from None
        except UnicodeDecodeError:
            raise ScenarioError("it is no text", where=str(path), right="TOML in UTF-8") from None
        try:
            self.document: dict[str, object] = tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            what, line = _split_toml_error(str(error), self.text)
            raise ScenarioError(f"it is no TOML: {what}", where=f"{path}:{line}") from None

    def line(self, at: KeyPath) -> int:
        """Return the line of a key."""
        return line_of(self.text, at)

    def fail(self, at: KeyPath, what: str, right: str = "") -> NoReturn:
        """Raise an error that points at a key."""
        key = next((str(part) for part in reversed(at) if isinstance(part, str)), "")
        place = f"{self.path}:{self.line(at)}"
        raise ScenarioError(what, where=f"{place}: {key}" if key else place, right=right)

    def convert(self, table: object, to: type[S], at: KeyPath) -> S:
        """Return a table as a struct, or fail at the key that does not fit.

        Raises:
            ScenarioError: an unknown key, one that is missing, or a value of a wrong type or size.
        """
        try:
            return msgspec.convert(table, to)
        except msgspec.ValidationError as error:
            self._explain(str(error), to, at)

    def _explain(self, message: str, to: type[msgspec.Struct], at: KeyPath) -> NoReturn:
        found = _AT.match(message)
        what, inner = (found[1], found[2]) if found else (message, "")
        inside = tuple(_path_of(inner))
        where = (*at, *inside)
        known = list(_struct_at(to, inside).__struct_encode_fields__)
        if unknown := _UNKNOWN.match(what):
            self.fail((*where, unknown[1]), "there is no such key here", did_you_mean(unknown[1], known))
        if missing := _MISSING.match(what):
            self.fail(where, f"the key {missing[1]} is missing")
        if wrong := _WRONG_TYPE.match(what):
            self.fail(where, f"this is {_in_words(wrong[2])}", _in_words(wrong[1]))
        self.fail(where, what[0].lower() + what[1:])


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return what would be right in place of an unknown word: the likely one, or all there are.

    >>> did_you_mean("brokr", ["broker", "at"]), did_you_mean("x", ["broker", "at"])
    ('broker', 'one of at, broker')
    """
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    return close[0] if close else f"one of {', '.join(names)}" if names else "nothing"


def _split_toml_error(message: str, text: str) -> tuple[str, int]:
    found = re.match(r"(.*) \(at line (\d+), column (\d+)\)", message, re.DOTALL)
    if found:
        return f"{found[1]} (column {found[3]})", int(found[2])
    return message.removesuffix(" (at end of document)") + " at the end of the file", max(1, len(text.splitlines()))


def _path_of(text: str) -> list[str | int]:
    path: list[str | int] = []
    for name, index in _PATH_PART.findall(text):
        if name:
            path.append(name)
        elif index.isdigit():
            path.append(int(index))
    return path


def _struct_at(struct: type[msgspec.Struct], path: KeyPath) -> type[msgspec.Struct]:
    """Return the struct that a path within a struct leads to, so that its keys can be told."""
    for part in path:
        kinds = {info.encode_name: info.type for info in msgspec.structs.fields(struct)}
        kind = kinds.get(str(part))
        inner = [
            candidate
            for candidate in (kind, *getattr(kind, "__args__", ()))
            if isinstance(candidate, type) and issubclass(candidate, msgspec.Struct)
        ]
        if not inner:
            return struct
        struct = inner[0]
    return struct


def _in_words(types: str) -> str:
    return " or ".join(_WORDS.get(name.strip(), name.strip()) for name in types.split("|") if name.strip() != "null")
