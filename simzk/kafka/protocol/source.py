"""Functions that are written as text and compiled: their source, and where a line of it stands in a message.

Rules of the module:
  - every line that can fail belongs to a place. When it fails, the traceback names the line and the local variables,
    so that successful calls pay nothing for good error messages;
  - a place is the path of a field with the loop variables in it, such as `Topics[{i1}].Name`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

Names: TypeAlias = "dict[str, object]"


class PackedValue(NamedTuple):
    """One value in a run of fixed-size values: its letter of `struct`, its size, and the field that it belongs to."""

    letter: str
    size: int
    path: str
    value: str
    """Expression of the value (encoding), or assignment target (decoding)."""


class FieldGroup(NamedTuple):
    """Fields that one line encodes or decodes."""

    path: str
    parts: tuple[PackedValue, ...] = ()


class Failure(NamedTuple):
    """Line that failed: its place and the values of the local variables."""

    place: FieldGroup
    variables: Mapping[str, object]


class FunctionSource:
    """Source of one function. `names` are its global names."""

    def __init__(self, title: str, signature: str, names: Names) -> None:
        self.title = title
        self.names = names
        self._lines = [f"def {signature}:"]
        self._places: dict[int, FieldGroup] = {}
        self._depth = 1
        self._variables = 0

    def line(self, text: str, place: FieldGroup | str = "") -> None:
        """Append a line."""
        assert "\n" not in text, "places are known by the number of their line"
        self._lines.append("    " * self._depth + text)
        self._places[len(self._lines)] = FieldGroup(place) if isinstance(place, str) else place

    @contextmanager
    def block(self, text: str, place: FieldGroup | str = "") -> Iterator[None]:
        """Append a line that begins a block; lines that are appended within the context are in it."""
        assert text.endswith(":"), f"{text!r} begins no block"
        self.line(text, place)
        self._depth += 1
        first = len(self._lines)
        yield
        assert len(self._lines) > first, f"the block of {text!r} is empty"
        self._depth -= 1

    def variable(self, prefix: str) -> str:
        """Return a new variable's name."""
        self._variables += 1
        return f"{prefix}{self._variables}"

    def constant(self, prefix: str, value: object) -> str:
        """Return the global name of a value; equal values of a prefix share one."""
        for name, known in self.names.items():
            if name.startswith(prefix) and type(known) is type(value) and known == value:
                return name
        name = f"{prefix}_{len(self.names)}"
        assert name not in self.names, f"{name} has another value"
        self.names[name] = value
        return name

    @property
    def text(self) -> str:
        """The whole source, to read."""
        return "\n".join(self._lines)

    def compile(self) -> object:
        """Return the function."""
        assert self._depth == 1, "a block is not closed"
        namespace: Names = dict(self.names)
        exec(compile(self.text, self.title, "exec"), namespace)
        return namespace[self._lines[0].partition("(")[0].removeprefix("def ")]

    def failure(self, traceback: TracebackType | None) -> Failure | None:
        """Return the line of this function that raised; None if another function did."""
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == self.title:
                assert 1 <= traceback.tb_lineno <= len(self._lines), f"{self.title} is another source"
                place = self._places.get(traceback.tb_lineno, FieldGroup(""))
                return Failure(place, traceback.tb_frame.f_locals)
            traceback = traceback.tb_next
        return None
