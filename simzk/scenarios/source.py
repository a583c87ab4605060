"""Text of a scenario file: durations, line numbers of keys, tables, and errors that name file, line and key.

Rules of this module:
  - a duration is written `250ms`, `12s`, `1.5s`, `2m` or `1h30m`, and is kept in integer microseconds;
  - `tomllib` reports no line numbers, so they are found in the text, which is valid TOML by then: the scan follows
    table headers and keys and skips multi-line strings; a key in an inline table or a list has the line of the nearest
    key around it;
  - an error names the file, the line and the key, says what is wrong, and what is accepted;
  - all mistakes of a file are reported at once, unless it is not TOML: then the first. A mistake that may follow from
    another one, such as a missing topic that a wrong step was to create, is reported once the other one is corrected.
"""

from __future__ import annotations

import re
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, NoReturn, Self, TypeVar

import msgspec
from msgspec import Meta, Struct

from simzk.documents import read_toml
from simzk.errors import ScenarioError, SeveralMistakesError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h)")
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:us|ms|s|m|h)\s*)+")

BrokerId = Annotated[int, Meta(ge=0, le=1_000_000)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Index = Annotated[int, Meta(ge=0, le=1_000_000)]

FORM = "a duration such as 250ms, 12s, 1.5s, 2m or 1h30m"
"""The accepted form of a duration, for error messages."""


def parse_duration(text: str) -> int | None:
    """Return a duration in microseconds, or None if the text is not one.

    >>> parse_duration("1m 1.5s"), parse_duration("twelve")
    (61500000, None)
    """
    text = text.strip()
    if not _WHOLE.fullmatch(text):
        return None
    return sum(int(Decimal(number) * _UNITS_US[unit]) for number, unit in _PART.findall(text))


def format_duration(duration_us: int) -> str:
    """Return a duration as a scenario file writes it.

    >>> [format_duration(us) for us in (0, 1_500_000, 90_000_000, 250_000, 7)]
    ['0s', '1.5s', '1m30s', '250ms', '7us']
    """
    if duration_us == 0:
        return "0s"
    parts = []
    for unit in ("h", "m"):
        count, duration_us = divmod(duration_us, _UNITS_US[unit])
        if count:
            parts.append(f"{count}{unit}")
    if duration_us:
        unit = next(unit for unit in ("s", "ms", "us") if duration_us >= _UNITS_US[unit])
        number = Decimal(duration_us) / _UNITS_US[unit]
        parts.append(f"{number.normalize():f}{unit}")
    return "".join(parts)


KeyPath = tuple[str | int, ...]
"""Path of a value in a parsed document, such as `("step", 3, "broker")`."""

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=(.*)""")
_KEY_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")


def line_of(text: str, path: KeyPath) -> int:
    r"""Return the line (from 1) of a key, or of the nearest table around it that begins a line.

    >>> line_of('title = "x"\n[[step]]\naction = "kill"\nbroker = 1\n', ("step", 0, "broker"))
    4
    """
    lines = key_lines(text)
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line of every table and key that begins a line."""
    found: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    quotes = ""  # the closing quotes of the multi-line string that this line begins in
    for number, line in enumerate(text.splitlines(), start=1):
        if quotes:
            if quotes in line:
                quotes = ""
            continue
        header = _HEADER.match(line)
        key = None if header else _KEY.match(line)
        if header:
            table = _resolve(_parts(header[2]), counts)
            if header[1] == "[[":
                found.setdefault(table, number)
                index = counts.get(table, -1) + 1
                counts[table] = index
                table = (*table, index)
            found.setdefault(table, number)
        elif key:
            path = table
            for part in _parts(key[1]):
                path = (*path, part)
                found.setdefault(path, number)
            quotes = _opened_quotes(key[2])
    return found


def _parts(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in _KEY_PART.findall(dotted)]


def _resolve(parts: list[str], counts: dict[KeyPath, int]) -> KeyPath:
    """Return the path of a table header; a name inside a list of tables refers to its last table."""
    path: KeyPath = ()
    for position, part in enumerate(parts):
        path = (*path, part)
        if position < len(parts) - 1 and path in counts:
            path = (*path, counts[path])
    return path


def _opened_quotes(value: str) -> str:
    for quotes in ('"""', "'''"):
        if value.lstrip().startswith(quotes) and quotes not in value.lstrip()[3:]:
            return quotes
    return ""


class TomlTable(Struct, forbid_unknown_fields=True, kw_only=True):
    """A table of a scenario file; an unknown key is an error."""


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


class DependentError(ScenarioError):
    """A mistake with regard to the steps above, which may follow from a mistake in one of them."""


class Mistakes:
    """Mistakes that are collected and raised together; a mistake that ends a `with` block is collected.

    >>> mistakes = Mistakes()
    >>> with mistakes:
    ...     raise ScenarioError("unknown key", where="a.toml:3")
    >>> mistakes.report()
    Traceback (most recent call last):
    simzk.errors.ScenarioError: a.toml:3: unknown key
    """

    def __init__(self) -> None:
        self.found: list[ScenarioError] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, ScenarioError):
            return False
        self.found += error.errors if isinstance(error, SeveralMistakesError) else [error]
        return True

    def note(self, error: ScenarioError) -> None:
        """Collect a mistake and go on."""
        self.found.append(error)

    def report(self) -> None:
        """Raise what was collected.

        Raises:
            ScenarioError: the only mistake.
            SeveralMistakesError: several.
        """
        if len(self.found) == 1:
            raise self.found[0]
        if self.found:
            raise SeveralMistakesError(self.found)


class Source:
    """A scenario file and its parsed document.

    Args:
        path: the file, as the user named it; errors show this form.

    Raises:
        ScenarioError: the file does not exist, is not text or is not TOML.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ScenarioError(
                f"cannot read the file: {error.strerror}", where=str(path), right="a scenario file"
            ) from None
        except UnicodeDecodeError:
            raise ScenarioError("the file is not text", where=str(path), right="TOML in UTF-8") from None
        try:
            self.document: dict[str, object] = read_toml(self.text)
        except ValueError as error:
            what, line = _split_toml_error(str(error), self.text)
            raise ScenarioError(f"invalid TOML: {what}", where=f"{path}:{line}") from None

    def line(self, at: KeyPath) -> int:
        """Return the line of a key."""
        return line_of(self.text, at)

    def fail(self, at: KeyPath, what: str, right: str = "") -> NoReturn:
        """Raise a ScenarioError at a key.

        Args:
            at: path of the key.
            what: the problem.
            right: the accepted values.
        """
        raise self.mistake(at, what, right)

    def mistake(
        self, at: KeyPath, what: str, right: str = "", kind: type[ScenarioError] = ScenarioError
    ) -> ScenarioError:
        """Return the error for a mistake at a key, to collect it; arguments as of `fail`."""
        key = next((str(part) for part in reversed(at) if isinstance(part, str)), "")
        line = self.line(at)
        place = f"{self.path}:{line}"
        error = kind(what, where=f"{place}: {key}" if key else place, right=right)
        error.line = line
        error.at = at
        return error

    def duration(self, text: str, at: KeyPath, *, positive: bool = False) -> int:
        """Return a duration in microseconds.

        Raises:
            ScenarioError: it is no duration, or 0 though it must be positive.
        """
        duration_us = parse_duration(text)
        if duration_us is None or (positive and not duration_us):
            self.fail(at, f"{text!r} is not a {'positive ' * positive}duration", FORM)
        return duration_us

    def convert(self, table: object, to: type[S], at: KeyPath) -> S:
        """Return a table as a struct.

        Raises:
            ScenarioError: a key is unknown or missing, or a value has the wrong type or size.
            SeveralMistakesError: the table has several such mistakes.
        """
        try:
            return msgspec.convert(table, to)
        except msgspec.ValidationError as error:
            mistakes = Mistakes()
            if isinstance(table, dict):
                self._collect(table, to, at, mistakes)
            mistakes.report()
            self._explain(str(error), to, at)

    def _collect(self, table: dict[str, object], to: type[msgspec.Struct], at: KeyPath, mistakes: Mistakes) -> None:
        """Collect the mistakes of each key of a table, which msgspec would report one by one."""
        fields = {info.encode_name: info for info in msgspec.structs.fields(to)}
        meant = set()
        for key in table:
            if key not in fields:
                meant.add(did_you_mean(key, fields))
                with mistakes:
                    self.fail((*at, key), "unknown key", did_you_mean(key, fields))
        for key, info in fields.items():
            if key not in table:
                if info.required and key not in meant:
                    with mistakes:
                        self.fail(at, f"the key {key} is missing")
                continue
            try:
                msgspec.convert(table[key], info.type)
            except msgspec.ValidationError as error:
                inner = _struct_at(to, (key,))
                value = table[key]
                if inner is not to and isinstance(value, dict):
                    self._collect(value, inner, (*at, key), mistakes)
                else:
                    with mistakes:
                        self._explain(_below(str(error), key), to, at)

    def _explain(self, message: str, to: type[msgspec.Struct], at: KeyPath) -> NoReturn:
        found = _AT.match(message)
        what, inner = (found[1], found[2]) if found else (message, "")
        inside = tuple(_path_of(inner))
        where = (*at, *inside)
        known = list(_struct_at(to, inside).__struct_encode_fields__)
        if unknown := _UNKNOWN.match(what):
            self.fail((*where, unknown[1]), "unknown key", did_you_mean(unknown[1], known))
        if missing := _MISSING.match(what):
            self.fail(where, f"the key {missing[1]} is missing")
        if wrong := _WRONG_TYPE.match(what):
            self.fail(where, f"the value is {_in_words(wrong[2])}", _in_words(wrong[1]))
        self.fail(where, what[0].lower() + what[1:])


def good_keys(table: dict[str, object], to: type[msgspec.Struct]) -> dict[str, object]:
    """Return the keys of a table that a struct has, with values of the right type and size."""
    good = {}
    for info in msgspec.structs.fields(to):
        with suppress(KeyError, msgspec.ValidationError):
            msgspec.convert(table[info.encode_name], info.type)
            good[info.encode_name] = table[info.encode_name]
    return good


def convert_good_keys(table: dict[str, object], to: type[S]) -> S | None:
    """Return the struct of the good keys of a table; None if a required key is not among them."""
    try:
        return msgspec.convert(good_keys(table, to), to)
    except msgspec.ValidationError:
        return None


def _below(message: str, key: str) -> str:
    """Return the message of a value as msgspec words it for the table around it.

    >>> _below("Expected `int`, got `str`", "seed"), _below("Expected `int` - at `$[1]`", "ids")
    ('Expected `int`, got `str` - at `$.seed`', 'Expected `int` - at `$.ids[1]`')
    """
    what, at, place = message.rpartition(" - at `$")
    return f"{what} - at `$.{key}{place}" if at else f"{message} - at `$.{key}`"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the accepted words for an unknown one: the closest, or all if none is close.

    >>> did_you_mean("brokr", ["broker", "at"]), did_you_mean("x", ["broker", "at"])
    ('broker', 'one of at, broker')
    """
    names = sorted(known)
    return nearest(word, names) or (f"one of {', '.join(names)}" if names else "nothing")


_AT_END = " (at end of document)"


def _split_toml_error(message: str, text: str) -> tuple[str, int]:
    found = re.match(r"(.*) \(at line (\d+), column (\d+)\)", message, re.DOTALL)
    if found:
        return f"{found[1]} (column {found[3]})", int(found[2])
    if not message.endswith(_AT_END):
        return message, 1
    return message.removesuffix(_AT_END) + " at the end of the file", max(1, len(text.splitlines()))


def _path_of(text: str) -> list[str | int]:
    path: list[str | int] = []
    for name, index in _PATH_PART.findall(text):
        if name:
            path.append(name)
        elif index.isdigit():
            path.append(int(index))
    return path


def _struct_at(struct: type[msgspec.Struct], path: KeyPath) -> type[msgspec.Struct]:
    """Return the struct at a path within a struct, whose keys are accepted there."""
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
