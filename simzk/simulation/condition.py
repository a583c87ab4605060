"""A condition that a test waits for, in virtual or wall time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from simzk.errors import SimzkError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Condition(Generic[T]):
    """A function that returns a true value once something holds.

    An `AssertionError` or `SimzkError` of the function means that it does not hold yet.

    Args:
        check: the function.

    Attributes:
        error: the error of the last check; None if it returned.

    >>> found = []
    >>> condition = Condition(lambda: found)
    >>> condition.holds()
    False
    >>> found.append("here")
    >>> condition.holds(), condition.value
    (True, ['here'])
    """

    def __init__(self, check: Callable[[], T]) -> None:
        self._check = check
        self._value: T | None = None
        self.error: Exception | None = None

    def holds(self) -> bool:
        """Check the condition."""
        try:
            self._value = self._check()
        except (AssertionError, SimzkError) as error:
            self._value, self.error = None, error
            return False
        self.error = None
        return bool(self._value)

    @property
    def value(self) -> T:
        """The result of the last check."""
        assert self.error is None, "the last check returned"
        return self._value  # type: ignore[return-value]  # None only if T has it

    def timeout(self, duration: str, state: str = "") -> TimeoutError:
        """Return the error to raise when the condition does not hold in time.

        Args:
            duration: how long was waited, with the unit.
            state: description of what was waited for; empty for none.

        >>> def is_ready() -> bool:
        ...     return False
        >>> condition = Condition(is_ready)
        >>> condition.holds()
        False
        >>> print(str(condition.timeout("5 s")).partition(" (")[0])
        is_ready
        """
        assert self.error is not None or not self._value, "the condition holds"
        last = f"raised {self.error!r}" if self.error is not None else f"returned {self._value!r}"
        text = f"{self._describe()} did not become true within {duration}; at last it {last}"
        return TimeoutError(f"{text}\n{state}" if state else text)

    def _describe(self) -> str:
        code = getattr(self._check, "__code__", None)
        if code is None:
            return repr(self._check)
        name = getattr(self._check, "__qualname__", code.co_name).rpartition("<locals>.")[2]
        return f"{name} ({code.co_filename}:{code.co_firstlineno})"
