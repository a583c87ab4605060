"""Base class of scenario steps.

Rules of this module:
  - a step is one class: its fields are the keys that a file may give (strict, with defaults), `check` compares them
    with the cluster as the steps above leave it, and `describe` names the step in reports;
  - an action is registered in `simzk.scenarios.actions.ACTIONS`, an expectation in
    `simzk.scenarios.expectations.EXPECTATIONS`; nothing else lists them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.scenarios.source import Table

if TYPE_CHECKING:
    from simzk.scenarios.cluster_model import ClusterModel
    from simzk.scenarios.source import KeyPath

BROKER_KEYS = ("broker", "next_controller", "peer")
"""Keys that name a broker in every step that has them."""


class Step(Table, kw_only=True):
    """A step of a scenario.

    Args:
        at: its time since the start of the run.
        after: its time since the step above; without `at` and `after` it follows that step immediately.
    """

    at: str = ""
    after: str = ""

    def check(self, model: ClusterModel, at: KeyPath) -> None:
        """Check the step against the cluster before it, and apply its changes to the model.

        Raises:
            ScenarioError: the step names something that does not exist, or cannot happen at this point.
        """
        for key in BROKER_KEYS:
            model.check_broker(getattr(self, key, None), (*at, key))
        self._check(model, at)

    def _check(self, model: ClusterModel, at: KeyPath) -> None:
        """Check the keys that only this kind of step has."""

    def describe(self) -> str:
        """Return the step in a few words, as reports show it."""
        raise NotImplementedError


def list_fields(*fields: tuple[str, object]) -> str:
    """Return the names and values of fields that are not None.

    >>> list_fields(("leader", 1), ("isr", None), ("version", 0))
    'leader 1, version 0'
    """
    return ", ".join(f"{name} {value}" for name, value in fields if value is not None)
