"""pytest plug-in: aiokafka's own tests use a broker that runs already, not a container.

The environment variable SIMZK_AIOKAFKA_BROKER is its address.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

HOST, _, PORT = os.environ.get("SIMZK_AIOKAFKA_BROKER", ":0").rpartition(":")
"""Address of the broker; none where pytest only looks for doctests in this file."""
NOTHING = SimpleNamespace()
SERVER = SimpleNamespace(
    host=HOST, port=int(PORT), ssl_port=0, sasl_plain_port=0, sasl_ssl_port=0, hosts=[f"{HOST}:{PORT}"]
)
FIXTURES = {
    "docker": NOTHING,
    "kafka_image": NOTHING,
    "kafka_server": SERVER,
    "ssl_folder": Path(),
    "acl_manager": NOTHING,
    "kafka_config": NOTHING,
    "kerberos_utils": NOTHING,
}
"""Fixtures of the suite that would start or use the container."""

# `tests/conftest.py` imports the package for the name of a class only
_DOCKER: Any = SimpleNamespace(models=SimpleNamespace(containers=SimpleNamespace(Container=object)))
sys.modules.setdefault("docker", _DOCKER)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> object:
    """Return the value of a fixture that would need the container; None for all others."""
    value = FIXTURES.get(fixturedef.argname)
    if value is not None:
        fixturedef.cached_result = (value, fixturedef.cache_key(request), None)  # type: ignore[arg-type]
    return value
