"""Our NamedTuple beside typing's: whoever uses a class cannot tell which of the two made it."""

from __future__ import annotations

import copy
import inspect
import keyword
import pickle
import sys
import types
import typing
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

import simzk.tuples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OURS: Any = simzk.tuples.NamedTuple
TYPINGS: Any = typing.NamedTuple

SOURCE = '''
from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

class Empty(NamedTuple):
    pass

class Point(NamedTuple):
    """Where something is."""
    x: int
    y: int = 0
    label: str | None = None

    UNIT = "cm"

    @property
    def far(self) -> bool:
        return self.x + self.y > 10

    @classmethod
    def at_origin(cls) -> Point:
        return cls(0)

    def __add__(self, other: Point) -> Point:
        return self._replace(x=self.x + other.x)

class Told(NamedTuple):
    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"

class Pair(NamedTuple, Generic[T]):
    first: T
    second: T

class Place(Point):
    """A point of its own kind."""
    def __new__(cls, *values: object) -> Place:
        return super().__new__(cls, *values[:2], label="here")
'''


@pytest.fixture(scope="module")
def makers() -> Iterator[tuple[Any, Any]]:
    """The same module twice, with our NamedTuple and with typing's; each is found by pickle while it is looked at."""
    modules = []
    # They have one name, as what they tell is to be the same; pickle finds whichever was last asked for.
    for named_tuple in (OURS, TYPINGS):
        module = types.ModuleType("module_of_tuples")
        module.__dict__["NamedTuple"] = named_tuple
        sys.modules[module.__name__] = module
        exec(SOURCE, module.__dict__)
        modules.append(module)
    yield modules[0], modules[1]
    del sys.modules["module_of_tuples"]


def outcome(ask: Callable[[Any], Any], of: Any) -> tuple[str, str]:
    """What comes of a question, as text: both modules' classes have the same names."""
    try:
        return "", repr(ask(of))
    except Exception as error:
        return type(error).__name__, str(error)


def public(kind: type) -> set[str]:
    # How an annotation is kept is told in simzk/tuples.py.
    return set(vars(kind)) - {"__annotations__"}


def match(module: Any, value: Any) -> Any:
    match value:
        case module.Point(x, y, label):
            return x, y, label
        case module.Pair(first=first):
            return first
    return None


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "made": lambda m: (m.Empty(), m.Point(1), m.Point(1, 2, "a"), m.Point(y=1, x=2), m.Told("a"), m.Pair(1, 2)),
    "made of too few": lambda m: m.Point(),
    "made of too many": lambda m: m.Point(1, 2, 3, 4),
    "made of unknown names": lambda m: m.Point(1, z=2),
    "made of one twice": lambda m: m.Point(1, x=2),
    "types": lambda m: (type(m.Point), m.Point.__mro__, m.Pair.__mro__, m.Point.__bases__, m.Place.__mro__),
    "is a tuple": lambda m: (m.Point(1) == (1, 0, None), hash(m.Point(1)) == hash((1, 0, None)), len(m.Point(1))),
    "its names": lambda m: [
        (kind.__name__, kind.__qualname__, kind.__module__, kind.__doc__)
        for kind in (m.Empty, m.Point, m.Told, m.Pair, m.Place)
    ],
    "what it has": lambda m: [sorted(public(kind)) for kind in (m.Empty, m.Point, m.Told, m.Pair)],
    "no more": lambda m: (hasattr(m.Point(1), "__dict__"), m.Point.__slots__),
    "set": lambda m: setattr(m.Point(1), "x", 2),
    "set what it has not": lambda m: setattr(m.Point(1), "z", 2),
    "fields": lambda m: [(kind._fields, kind._field_defaults, kind.__match_args__) for kind in (m.Empty, m.Point)],
    "a field's text": lambda m: (m.Point.x.__doc__, m.Point.label.__doc__, type(m.Point.x).__name__),
    "a field of another": lambda m: m.Point.x.__get__(7),
    "a method": lambda m: (m.Point(9, 2).far, m.Point.at_origin(), m.Point(1) + m.Point(2), m.Point.UNIT),
    "_make": lambda m: (m.Point._make([1, 2, 3]), m.Place._make("abc"), type(m.Place._make("abc"))),
    "_make of too few": lambda m: m.Point._make([1]),
    "_replace": lambda m: (m.Point(1)._replace(y=2, x=3), m.Place(1)._replace(x=2), m.Empty()._replace()),
    "_replace of none": lambda m: m.Point(1)._replace(z=2, w=3),
    "_asdict": lambda m: (m.Point(1)._asdict(), m.Empty()._asdict()),
    "__getnewargs__": lambda m: (m.Point(1).__getnewargs__(), type(m.Point(1).__getnewargs__())),
    "copies": lambda m: (copy.copy(m.Point(1)), copy.deepcopy(m.Point([1])), type(copy.copy(m.Place(1)))),
    "match": lambda m: (match(m, m.Point(1)), match(m, m.Pair(1, 2)), match(m, m.Empty())),
    "parameters": lambda m: [
        (name, one.kind, one.default)
        for kind in (m.Empty, m.Point, m.Pair)
        for name, one in inspect.signature(kind).parameters.items()
    ],
    "documents": lambda m: (m.Point.__new__.__doc__, m.Point.__new__.__name__, m.Point.__new__.__qualname__),
    "methods' documents": lambda m: (m.Point._asdict.__doc__, m.Point.__repr__.__doc__, m.Point.__getnewargs__.__doc__),
    "hints": lambda m: (typing.get_type_hints(m.Point), typing.get_type_hints(m.Pair), typing.get_type_hints(m.Empty)),
    "a generic of": lambda m: (m.Pair[int], m.Pair[int](1, 2), m.Pair.__parameters__, typing.get_args(m.Pair[int])),
    "what it was derived from": lambda m: [base.__name__ for base in m.Point.__orig_bases__],
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_class_answers_as_one_of_typing_does(makers: tuple[Any, Any], question: str) -> None:
    ours, typings = makers
    assert outcome(QUESTIONS[question], ours) == outcome(QUESTIONS[question], typings)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_of_one_are_read_by_the_other(makers: tuple[Any, Any], protocol: int) -> None:
    for written, read in (makers, makers[::-1], (makers[0], makers[0])):
        value = [written.Point(1, label="a"), written.Empty(), written.Pair(1, 2), written.Place(1)]
        sys.modules["module_of_tuples"] = written
        data = pickle.dumps(value, protocol)
        sys.modules["module_of_tuples"] = read
        again = pickle.loads(data)
        assert again == value
        assert [type(one) for one in again] == [read.Point, read.Empty, read.Pair, read.Place]


def derived(named_tuple: Any, body: dict[str, Any], *others: Any) -> Any:
    return types.new_class("Made", (named_tuple, *others), {}, lambda namespace: namespace.update(body))


REFUSED: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "a constructor of its own": ({"__annotations__": {"a": int}, "__new__": lambda cls: None}, ()),
    "a method of the tuple's": ({"__annotations__": {"a": int}, "_replace": lambda self: None}, ()),
    "a default too early": ({"__annotations__": {"a": int, "b": int}, "a": 1}, ()),
    "a name with an underscore": ({"__annotations__": {"_a": int}}, ()),
    "another base": ({"__annotations__": {"a": int}}, (list,)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_typing_refuses_is_refused(case: str) -> None:
    body, others = REFUSED[case]
    errors = []
    for named_tuple in (OURS, TYPINGS):
        with pytest.raises((AttributeError, TypeError, ValueError)) as raised:
            derived(named_tuple, {"__module__": __name__, **body}, *others)
        errors.append(type(raised.value))
    assert errors[0] is errors[1]


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,5}|cls|self|[^\W_][äπ]", fullmatch=True).filter(
    lambda name: name.isidentifier() and not keyword.iskeyword(name) and normalize("NFKC", name) == name
)
VALUES = st.integers() | st.text() | st.none() | st.tuples(st.integers())


@given(
    names=st.lists(NAMES, unique=True, max_size=30),
    defaulted=st.integers(0, 30),
    values=st.lists(VALUES, max_size=31),
    data=st.data(),
)
def test_any_fields_and_any_call(names: list[str], defaulted: int, values: list[Any], data: st.DataObject) -> None:
    body: dict[str, Any] = {name: f"default of {name}" for name in names[defaulted:]}
    body |= {"__module__": __name__, "__annotations__": dict.fromkeys(names, "int")}
    ours, typings = (derived(named_tuple, dict(body)) for named_tuple in (OURS, TYPINGS))
    chosen = st.dictionaries(st.sampled_from(names or ["none"]) | NAMES, VALUES, max_size=5)
    by_name, replaced = data.draw(chosen), data.draw(chosen)
    asked: tuple[Callable[[Any], Any], ...] = (
        lambda kind: kind(*values, **by_name),
        lambda kind: kind(*values, **by_name)._replace(**replaced),
        lambda kind: kind._make(values)._asdict(),
        lambda kind: kind._make(values).__getnewargs__(),
        lambda kind: [getattr(kind._make(values), name) for name in names],
        lambda kind: (kind._fields, kind._field_defaults, kind.__doc__, kind.__new__.__doc__),
        lambda kind: [(one.name, one.kind, one.default) for one in inspect.signature(kind).parameters.values()],
    )
    for ask in asked:
        assert outcome(ask, ours) == outcome(ask, typings)
