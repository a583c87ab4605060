"""`NamedTuple`: what `typing.NamedTuple` is, made in a seventh of the time.

typing compiles every annotation and evaluates the source of every constructor: 140 µs a class, so that the 75 classes
that a first server loads took 10 of its 60 ms. Here a class takes 20.

Rules of this module:
  - whoever uses a class, an instance or a pickle of one cannot tell which of the two made it: tests/test_tuples.py
    asks both the same. A type checker knows only typing's;
  - a constructor is as fast as typing's, for its code is the same: it is compiled once for each number of fields, and
    differs between classes in the names of its arguments only;
  - annotations stay as they are written: text, since whoever defines a tuple has `from __future__ import annotations`
    (typing makes a ForwardRef of each; `typing.get_type_hints` gives the same of both).
"""

from __future__ import annotations

import sys
from collections import _tuplegetter  # type: ignore[attr-defined]  # as namedtuple's fields are read
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType
    from typing import NamedTuple as NamedTuple

_new_tuple = tuple.__new__
# copy.replace came with 3.13, and with it the error that a call with unknown names is anywhere else.
_HAS_COPY_REPLACE = sys.version_info >= (3, 13)
_UNKNOWN_NAMES = TypeError if _HAS_COPY_REPLACE else ValueError


def _make(cls: Any, iterable: Iterable[object]) -> Any:
    """Make a new object from a sequence or iterable"""
    made = _new_tuple(cls, iterable)
    if len(made) != len(cls._fields):
        raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
    return made


def _replace(self: Any, /, **kwds: object) -> Any:
    """Return a new object replacing specified fields with new values"""
    made = self._make(map(kwds.pop, self._fields, self))
    if kwds:
        raise _UNKNOWN_NAMES(f"Got unexpected field names: {list(kwds)!r}")
    return made


def _repr(self: Any) -> str:
    """Return a nicely formatted representation string"""
    values = ", ".join([f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True)])
    return f"{self.__class__.__name__}({values})"


def _asdict(self: Any) -> dict[str, object]:
    """Return a new dict which maps field names to their values."""
    return dict(zip(self._fields, self, strict=True))


def _getnewargs(self: Any) -> tuple[object, ...]:
    """Return self as a plain tuple.  Used by copy and pickle."""
    return tuple(self)


_SHARED = {
    "__slots__": (),
    "_make": classmethod(_make),
    "_replace": _replace,
    "__repr__": _repr,
    "_asdict": _asdict,
    "__getnewargs__": _getnewargs,
}
if _HAS_COPY_REPLACE:
    _SHARED["__replace__"] = _replace
_RESERVED = frozenset(
    {"__new__", "__init__", "__slots__", "__getnewargs__", "_fields", "_field_defaults", "_make", "_replace", "_asdict"}
)


@cache
def _getter(number: int) -> Any:
    return _tuplegetter(number, f"Alias for field number {number}")


@cache
def _constructor(size: int) -> CodeType:
    """The code that makes a tuple of so many arguments, whatever they are called."""
    names = "".join(f"v{number}, " for number in range(size))
    made: FunctionType = eval(f"lambda _cls, {names}: _new_tuple(_cls, ({names}))")
    return made.__code__


class _Maker(type):
    """Makes a class that is derived from `NamedTuple` a plain subclass of `tuple`, as typing does."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        if not bases:
            return super().__new__(cls, name, bases, body)
        types = body.get("__annotations__", {})
        fields = tuple(types)
        defaults = {field: body.pop(field) for field in fields if field in body}
        _check(fields, defaults, body)
        listed = ", ".join(fields) if len(fields) != 1 else f"{fields[0]},"
        code = _constructor(len(fields)).replace(co_varnames=("_cls", *fields), co_name="__new__")
        new = FunctionType(code, globals(), "__new__", tuple(defaults.values()) or None)
        new.__qualname__ = f"{name}.__new__"
        new.__doc__ = f"Create new instance of {name}({listed})"
        new.__annotations__ = types
        derived_from = tuple(tuple if isinstance(base, _Maker) else base for base in bases)
        namespace = {
            **_SHARED,
            "__doc__": f"{name}({listed})",
            "__orig_bases__": bases,
            "__new__": new,
            "_fields": fields,
            "_field_defaults": defaults,
            "__match_args__": fields,
            **{field: _getter(number) for number, field in enumerate(fields)},
        }
        if Generic in derived_from:
            # tuple has a __class_getitem__ of its own, and comes first.
            namespace["__class_getitem__"] = Generic.__dict__["__class_getitem__"]
        elif len(bases) > 1:
            raise TypeError("can only inherit from a NamedTuple type and Generic")
        return type(name, derived_from, namespace | body)


def _check(fields: tuple[str, ...], defaults: dict[str, object], body: dict[str, Any]) -> None:
    """What typing refuses, for it could not be."""
    for name in _RESERVED & body.keys():
        raise AttributeError(f"Cannot overwrite NamedTuple attribute {name}")
    for field in fields:
        if field.startswith("_"):
            raise ValueError(f"Field names cannot start with an underscore: {field!r}")
    if fields[len(fields) - len(defaults) :] != tuple(defaults):
        raise TypeError("Non-default namedtuple field cannot follow default fields")


if not TYPE_CHECKING:

    class NamedTuple(metaclass=_Maker):
        """As `typing.NamedTuple`, by which the fields of a class and their types are told.

        >>> class Point(NamedTuple):
        ...     x: int
        ...     y: int = 0
        >>> Point(1)
        Point(x=1, y=0)
        """
