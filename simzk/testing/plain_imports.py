"""Finder that lets Python import simzk's modules as it imports any others, though pytest would rewrite their asserts.

pytest rewrites the asserts of every module of a distribution that ships a plugin, for plugins that check something in
the name of a test. simzk's asserts check simzk, and a fresh container, which has no bytecode of theirs yet, would spend
two seconds on the 160 modules of a cluster.

The plugin imports this module before the other modules of simzk, and the import puts the finder ahead of pytest's.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class PlainImports(MetaPathFinder):
    """Finder of the modules of simzk."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where Python's own finder finds a module of simzk; None for any other module."""
        return PathFinder.find_spec(fullname, path) if fullname.startswith("simzk.") else None


sys.meta_path.insert(0, PlainImports())
