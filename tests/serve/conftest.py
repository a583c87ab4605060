"""Fixtures of the tests of servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.serve.configuration.settings import Settings
from tests.serve.served import Served, served

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def server() -> Iterator[Served]:
    """A server with its AdminServer; a module that needs another server has a fixture of its own."""
    with served(Settings(admin_port=0)) as running:
        yield running
